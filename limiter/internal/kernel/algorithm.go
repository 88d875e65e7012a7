package kernel

// Algorithm is one line of the registry: a name, the kernel that decides it in Go and the fragment
// of scripts/ that decides it in Lua.
type Algorithm struct {
	Name   string
	Code   string // begins the last part of a Redis key
	Script string // the fragment, which is the kernel's name in Lua too
	Kernel Kernel
	Logs   bool // keeps a log instead of numbers
	Bursts bool // has a burst, and may be a queue

	// Running reports that the requests that run are counted, and nothing in a window.
	Running bool

	// MaxLimit and maxWindow are the largest limit and the longest window in ticks; 0: the bounds of
	// the precision alone.
	MaxLimit, MaxWindow int64
}

// Registry holds the algorithms, the default first. The three buckets are one rule in three
// vocabularies: token_bucket holds the capacity minus the debt, gcra's theoretical arrival time is
// now + debt/limit, leaky_bucket's level is the debt.
var Registry = []Algorithm{
	{Name: "sliding_window_counter", Code: "c", Script: "sliding_window_counter", Kernel: slidingWindowCounter{}},
	{Name: "sliding_window_log", Code: "l", Script: "sliding_window_log", Kernel: slidingWindowLog{}, Logs: true, MaxLimit: MaxLogLimit, MaxWindow: maxLogWindow},
	{Name: "fixed_window", Code: "f", Script: "fixed_window", Kernel: fixedWindow{}},
	{Name: "token_bucket", Code: "t", Script: "bucket", Kernel: bucket{}, Bursts: true},
	{Name: "leaky_bucket", Code: "k", Script: "bucket", Kernel: bucket{}, Bursts: true},
	{Name: "gcra", Code: "g", Script: "bucket", Kernel: bucket{}, Bursts: true},
}

// RunningAlgorithm counts the requests that run (limiter.Settings.MaxConcurrent). It has no window, and is no
// algorithm to users.
var RunningAlgorithm = Algorithm{Name: "concurrency", Code: "n", Script: "concurrency", Kernel: concurrency{}, Running: true}

// Named returns the algorithm of that name; nil: there is none.
func Named(name string) *Algorithm {
	for i := range Registry {
		if Registry[i].Name == name {
			return &Registry[i]
		}
	}
	return nil
}

// CalendarAlgorithm counts in calendar periods. To users it is fixed_window with another kind of window.
var CalendarAlgorithm = Algorithm{Name: "fixed_window", Code: "p", Script: "calendar", Kernel: calendarWindow{}}

// Leases reports whether units of the algorithm can be taken ahead.
func (a *Algorithm) Leases() bool {
	_, ok := a.Kernel.(Leasing)
	return ok
}
