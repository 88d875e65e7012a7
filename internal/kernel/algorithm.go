package kernel

import "time"

// Algorithm is one line of the registry: a name, the kernel that decides it in Go and the fragment
// of scripts/ that decides it in Lua.
type Algorithm struct {
	Name   string
	Code   string // begins the last part of a Redis key
	Script string // the fragment, which is the kernel's name in Lua too
	Kernel kernel // nil: RunningAlgorithm
	Logs   bool   // keeps a log instead of numbers
	Bursts bool   // has a burst, and may be a queue
	Earns  bool   // earns its capacity unit by unit, and not by windows

	// Numbers appends the numbers that a policy brings to Redis beside its Params, and which the Lua twin takes from
	// the message by its function read. They depend on the time of that Redis, in microseconds since the Unix epoch,
	// and on the ID of this process there. Nil: none.
	Numbers func(dst []int64, now, node int64, t *Params) []int64

	// MaxLimit and MaxWindow are the largest limit and the longest window in ticks; 0: the bounds of
	// the precision alone.
	MaxLimit, MaxWindow int64
}

// Registry holds the algorithms, the default first. The three buckets are one rule in three
// vocabularies: token_bucket holds the capacity minus the debt, gcra's theoretical arrival time is
// now + debt/limit, leaky_bucket's level is the debt.
var Registry = []Algorithm{
	{Name: "sliding_window_counter", Code: "c", Script: "sliding_window_counter", Kernel: new(slidingWindowCounter)},
	{Name: "sliding_window_log", Code: "l", Script: "sliding_window_log", Kernel: new(slidingWindowLog), Logs: true,
		MaxLimit: MaxLogLimit, MaxWindow: maxLogWindow},
	{Name: "fixed_window", Code: "f", Script: "fixed_window", Kernel: new(fixedWindow)},
	{Name: "token_bucket", Code: "t", Script: "bucket", Kernel: new(bucket), Bursts: true, Earns: true},
	{Name: "leaky_bucket", Code: "k", Script: "bucket", Kernel: new(bucket), Bursts: true, Earns: true},
	{Name: "gcra", Code: "g", Script: "bucket", Kernel: new(bucket), Bursts: true, Earns: true},
}

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
var CalendarAlgorithm = Algorithm{Name: "fixed_window", Code: "p", Script: "calendar", Kernel: new(calendarWindow), Numbers: periodNumbers}

// Leases reports whether units of the algorithm can be taken ahead.
func (a *Algorithm) Leases() bool {
	_, ok := a.Kernel.(Leasing)
	return ok
}

// Terms are what a policy decides by: the numbers that the stores read.
type Terms struct {
	Algorithm     *Algorithm
	Params        Params
	ID            string        // names the states that the policy counts in: its name, and a code of algorithm, window and tick
	Ban           *Ban          // nil: the policy bans no client
	Lease         time.Duration // the longest lease of the policy's keys on this node; 0: there are no leases
	Salt          uint64        // mixed into hashes of keys
	Refunds       bool          // takes may be refunded: the deny cache leaves the policy out, but for bans
	CountsRunning bool          // counts the requests that run, and nothing in a window
}

// EndsEarly reports whether a denial may end before its time.
func (terms *Terms) EndsEarly() bool { return terms.Refunds || terms.CountsRunning }

// LastReceipt returns the receipt of the charge that a state ends with, at an instant in ticks.
func (terms *Terms) LastReceipt(s State, now int64) Receipt {
	v := Verdict{Next: s.Numbers}
	if s.Log != nil {
		v.Next = newEntry{tick: s.Log.Entries[len(s.Log.Entries)-1].tick(now)}.numbers()
	}
	return terms.Algorithm.Kernel.Receipt(v)
}

// Stricter returns the state that leaves less of two at an instant in microseconds.
func (terms *Terms) Stricter(a, b State, now int64) State {
	t, k := &terms.Params, terms.Algorithm.Kernel
	x, y := k.Decide(a, now/t.Tick, t, 0, 0), k.Decide(b, now/t.Tick, t, 0, 0)
	if y.Remaining < x.Remaining || (y.Remaining == x.Remaining && y.Reset > x.Reset) {
		return b
	}
	return a
}

// ScaledBy returns the numbers scaled by a fraction above 0 and below 1: at least one unit. It reports false if
// rounding would make times longer than they can be.
func (terms *Terms) ScaledBy(fraction float64) (Params, bool) {
	t := terms.Params
	t.Limit = max(1, int64(float64(t.Limit)*fraction))
	t.Capacity = max(1, int64(float64(t.Capacity)*fraction))
	if terms.Algorithm.Bursts {
		if t.Full = CeilDiv(t.Capacity*t.Window, t.Limit); t.Full > Precision/2/t.Tick {
			return t, false
		}
	}
	t.MaxDebt, t.Fraction = MostDebt(t.Limit, t.Tick), fraction
	return t, true
}
