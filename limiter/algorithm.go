package limiter

// algorithm is one line of the registry: a name, the kernel that decides it in Go and the fragment
// of scripts/ that decides it in Lua.
type algorithm struct {
	name   string
	code   string // begins the last part of a Redis key
	script string // the fragment, which is the kernel's name in Lua too
	kernel kernel
	logs   bool // keeps a log instead of numbers
	bursts bool // has a burst, and may be a queue

	// running reports that the requests that run are counted, and nothing in a window.
	running bool

	// maxLimit and maxWindow are the largest limit and the longest window in ticks; 0: the bounds of
	// the precision alone.
	maxLimit, maxWindow int64
}

// registry holds the algorithms, the default first. The three buckets are one rule in three
// vocabularies: token_bucket holds the capacity minus the debt, gcra's theoretical arrival time is
// now + debt/limit, leaky_bucket's level is the debt.
var registry = []algorithm{
	{name: SlidingWindowCounter, code: "c", script: "sliding_window_counter", kernel: slidingWindowCounter{}},
	{name: SlidingWindowLog, code: "l", script: "sliding_window_log", kernel: slidingWindowLog{}, logs: true, maxLimit: maxLogLimit, maxWindow: maxLogWindow},
	{name: FixedWindow, code: "f", script: "fixed_window", kernel: fixedWindow{}},
	{name: TokenBucket, code: "t", script: "bucket", kernel: bucket{}, bursts: true},
	{name: LeakyBucket, code: "k", script: "bucket", kernel: bucket{}, bursts: true},
	{name: GCRA, code: "g", script: "bucket", kernel: bucket{}, bursts: true},
}

// runningAlgorithm counts the requests that run ([Settings].MaxConcurrent). It has no window, and is no
// algorithm to users.
var runningAlgorithm = algorithm{name: "concurrency", code: "n", script: "concurrency", kernel: concurrency{}, running: true}

// The algorithms' names. See the README for how to choose, and the file of each for its formulas.
const (
	SlidingWindowCounter = "sliding_window_counter" // two aligned windows estimate a sliding one
	SlidingWindowLog     = "sliding_window_log"     // exact; keeps an entry per request
	FixedWindow          = "fixed_window"           // aligned windows; up to twice the limit around a boundary
	TokenBucket          = "token_bucket"           // refills steadily up to the burst
	LeakyBucket          = "leaky_bucket"           // as TokenBucket, by the level of what was taken
	GCRA                 = "gcra"                   // as TokenBucket, by arrival times
)

// DefaultAlgorithm is the algorithm of a policy without one.
const DefaultAlgorithm = SlidingWindowCounter

// Algorithms lists the names of the algorithms, the default first.
func Algorithms() []string {
	names := make([]string, len(registry))
	for i := range registry {
		names[i] = registry[i].name
	}
	return names
}

func algorithmNamed(name string) *algorithm {
	for i := range registry {
		if registry[i].name == name {
			return &registry[i]
		}
	}
	return nil
}

// kernel is the pure part of an algorithm: functions of a state, an instant, a policy's parameters
// and a weight. All times are ticks, instants count from the Unix epoch. No kernel reads a clock.
type kernel interface {
	// decide returns what a request of this weight would get that reserves units for others, and
	// writes nothing. The weight and the reserve are together at most the capacity, or the weight is 0.
	decide(s state, now int64, t *params, weight, reserve int64) verdict

	// take returns the state after a passing verdict. Only a refundable take needs its receipt.
	take(s state, t *params, v verdict, refundable bool) state

	// receipt identifies the take of a passing verdict.
	receipt(v verdict) receipt

	// refund returns the state without some of the units of a take, from 1 to its weight, as far as they
	// have not drained by themselves. A receipt is valid once.
	refund(s state, now int64, t *params, weight, units int64, r receipt) state

	// charge returns the state after a take that needs no room: of any weight up to MaxCharge, into
	// debt. The debt saturates where the formulas would stop to be exact.
	charge(s state, now int64, t *params, weight int64) state

	// owed returns what a state holds at an instant beyond another one, of the same key. None is
	// below a unit.
	owed(s, beyond state, now int64, t *params) []debt

	// repay returns the state after a debt was added, as far as that leaves it within the capacity,
	// and how many whole units were added. A debt that has decayed changes nothing.
	repay(s state, now int64, t *params, d debt) (repaid state, units int64)

	// restoreState rebuilds a state at least as full as the last one reported, from its used units
	// and reset time. The reset is later than now.
	restoreState(used, resets, now int64, t *params) state

	// describe returns a stored state in words for operators.
	describe(s state, now int64, t *params) map[string]any

	// expires returns the instant from which the whole quota is free again if no other request
	// comes.
	expires(s state, now int64, t *params) int64
}

// extendedKernel is a kernel whose policies bring numbers of their own to Redis. Its Lua twin has a
// function `read` that takes them from the message.
type extendedKernel interface {
	// writePolicy writes the numbers of one policy.
	writePolicy(m *message, p *Policy)
}

// verdict is the answer to a request in ticks: a Result, and the state that a take stores.
type verdict struct {
	wait      int64 // 0 passes
	remaining int64 // what must stay for others included; see beyondQueue
	reset     int64
	delay     int64
	a, b, c   int64
	lead      int64 // of a log: by how much the tick of the entry is ahead of the clock
}

// debt is what a key owes to a store: units of a window, by the window's index; of a log, by their
// tick; of a bucket, where the instant is 0, in 1/window units.
type debt struct{ at, amount int64 }

// receipt identifies a take, so that it can be refunded.
type receipt struct{ first, second int64 }
