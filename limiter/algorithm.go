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

// calendarAlgorithm counts in calendar periods. To users it is [FixedWindow] with another kind of window.
var calendarAlgorithm = algorithm{name: FixedWindow, code: "p", script: "calendar", kernel: calendarWindow{}}
