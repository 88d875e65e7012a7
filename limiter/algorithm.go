package limiter

// algorithm is one line of the registry: a name, the kernel that decides it in Go and the fragment
// of scripts/ that decides it in Lua.
type algorithm struct {
	name   string
	code   string // begins the last part of a Redis key
	script string // the fragment, which is the kernel's name in Lua too
	kernel kernel
	logs   bool // keeps a log instead of numbers
	bursts bool // has a burst
	queues bool // has a max_delay

	// Where not 0, bounds below that of the precision: the largest limit, the longest window in ticks.
	maxLimit, maxWindow int64
}

// registry holds the algorithms, the default first. The three buckets are one rule in three
// vocabularies: token_bucket holds the capacity minus the debt, gcra's theoretical arrival time is
// now + debt/limit, leaky_bucket's level is the debt. Only leaky_bucket also has a queue.
var registry = []algorithm{
	{name: "sliding_window_counter", code: "c", script: "sliding_window_counter", kernel: slidingWindowCounter{}},
	{name: "sliding_window_log", code: "l", script: "sliding_window_log", kernel: slidingWindowLog{}, logs: true, maxLimit: maxLogLimit, maxWindow: maxLogWindow},
	{name: "fixed_window", code: "f", script: "fixed_window", kernel: fixedWindow{}},
	{name: "token_bucket", code: "t", script: "bucket", kernel: bucket{}, bursts: true},
	{name: "leaky_bucket", code: "k", script: "bucket", kernel: bucket{}, bursts: true, queues: true},
	{name: "gcra", code: "g", script: "bucket", kernel: bucket{}, bursts: true},
}

// DefaultAlgorithm is what a policy uses unless it says otherwise.
const DefaultAlgorithm = "sliding_window_counter"

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

// kernel is the pure part of an algorithm: functions of a share, an instant, a policy's terms and
// a weight. All times are ticks, instants count from the Unix epoch. No kernel reads a clock.
type kernel interface {
	// decide tells what a request of this weight would get, and writes nothing. The weight is at
	// most the capacity.
	decide(s state, now int64, t *params, weight int64) verdict

	// take returns the share after what a passing verdict found.
	take(s state, t *params, v verdict) state

	// receipt identifies the take of a passing verdict.
	receipt(v verdict) receipt

	// refund returns the share without a take, as far as that has not drained by itself. A receipt
	// is good for once.
	refund(s state, now int64, t *params, weight int64, r receipt) state

	// charge returns the share after a take that asks for no room: of any weight up to MaxCharge, into
	// debt, which saturates where the formulas would stop to be exact.
	charge(s state, now int64, t *params, weight int64) state

	// restoreState makes a share that is used at least as much as the one of which is only known that so
	// many units were used and that it is as good as new from some instant after now on.
	restoreState(used, resets, now int64, t *params) state

	// describe tells what a share as it is stored says, in words for operators.
	describe(s state, now int64, t *params) map[string]any

	// expires is the instant from which the share is as good as new if nobody else comes.
	expires(s state, now int64, t *params) int64
}

// state is the state of one key in one policy. What the numbers mean is the kernel's business; all
// zero is the share of a client that was never seen.
type state struct {
	numbers
	log *unitLog // sliding_window_log only
}

// numbers is all that a share of the other algorithms is.
type numbers struct{ a, b, c int64 }

// verdict is the answer to a request in ticks: a Result, and the state that a take stores.
type verdict struct {
	wait      int64 // 0 passes
	remaining int64
	reset     int64
	delay     int64
	a, b, c   int64
}

// receipt identifies a take, so that it can be given back.
type receipt struct{ first, second int64 }

// micros converts a time in ticks from the instant now_us of a script or a clock, whose part below
// a tick is offset, to exact microseconds. 0 and Never stay what they are.
func (p *params) micros(ticks, offset int64) int64 {
	if ticks <= 0 {
		return ticks
	}
	return ticks*p.tick - offset
}

// MaxCharge is the most units that can be charged at once, 2^52, and the most that a share can owe in
// 1/window units, so that every sum of two of them is below the precision.
const MaxCharge = precision / 2

// addDebt adds a charge to units that are at most as many as there can be.
func addDebt(units, weight, most int64) int64 { return min(units+weight, max(units, most)) }

// ceilDiv is the quotient a/b rounded up, for b > 0. For a < 1 it rounds toward zero, which no formula
// lets through.
func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
