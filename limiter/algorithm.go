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
	{name: "sliding_window_counter", code: "c", script: "sliding_window_counter", kernel: slidingWindowCounter{}},
	{name: "sliding_window_log", code: "l", script: "sliding_window_log", kernel: slidingWindowLog{}, logs: true, maxLimit: maxLogLimit, maxWindow: maxLogWindow},
	{name: "fixed_window", code: "f", script: "fixed_window", kernel: fixedWindow{}},
	{name: "token_bucket", code: "t", script: "bucket", kernel: bucket{}, bursts: true},
	{name: "leaky_bucket", code: "k", script: "bucket", kernel: bucket{}, bursts: true},
	{name: "gcra", code: "g", script: "bucket", kernel: bucket{}, bursts: true},
}

// runningAlgorithm counts the requests that run ([Settings].MaxConcurrent). It has no window, and is no
// algorithm to users.
var runningAlgorithm = algorithm{name: "concurrency", code: "n", script: "concurrency", kernel: concurrency{}, running: true}

func algorithmNamed(name string) *algorithm {
	for i := range registry {
		if registry[i].name == name {
			return &registry[i]
		}
	}
	return nil
}

// calendarAlgorithm counts in calendar periods. To users it is [FixedWindow] with another kind of window.
var calendarAlgorithm = algorithm{name: "fixed_window", code: "p", script: "calendar", kernel: calendarWindow{}}
