package kernel

import (
	"sync/atomic"
	"time"
)

// Algorithm is one line of the registry: a name, the kernel that decides it in Go and the fragment
// of scripts/ that decides it in Lua.
type Algorithm struct {
	Name   string
	Code   string // begins the last part of a Redis key
	Script string // the fragment, which is the kernel's name in Lua too
	Kernel Kernel // nil: RunningAlgorithm
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
	{Name: "sliding_window_counter", Code: "c", Script: "sliding_window_counter", Kernel: slidingWindowCounter{}},
	{Name: "sliding_window_log", Code: "l", Script: "sliding_window_log", Kernel: slidingWindowLog{}, Logs: true, MaxLimit: MaxLogLimit, MaxWindow: maxLogWindow},
	{Name: "fixed_window", Code: "f", Script: "fixed_window", Kernel: fixedWindow{}},
	{Name: "token_bucket", Code: "t", Script: "bucket", Kernel: bucket{}, Bursts: true, Earns: true},
	{Name: "leaky_bucket", Code: "k", Script: "bucket", Kernel: bucket{}, Bursts: true, Earns: true},
	{Name: "gcra", Code: "g", Script: "bucket", Kernel: bucket{}, Bursts: true, Earns: true},
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
var CalendarAlgorithm = Algorithm{Name: "fixed_window", Code: "p", Script: "calendar", Kernel: calendarWindow{}, Numbers: periodNumbers}

// Leases reports whether units of the algorithm can be taken ahead.
func (a *Algorithm) Leases() bool {
	_, ok := a.Kernel.(Leasing)
	return ok
}

// Rule is what a policy decides by: numbers that the stores read, and what they made of them.
type Rule struct {
	Algorithm *Algorithm
	Params    Params
	ID        string        // names the states that the rule counts in
	Ban       *Ban          // nil: none
	Lease     time.Duration // the longest on this node; 0: none
	Salt      uint64        // mixed into hashes of keys
	Refunds   bool          // takes may be refunded: no deny cache

	// What the stores make of the policy, for the next request.
	Table, Local Slot
}

// Slot keeps what was last made of something. Any number of goroutines may use it.
type Slot struct{ made atomic.Pointer[any] }

// Load returns what is kept; nil before the first.
func (s *Slot) Load() any {
	if made := s.made.Load(); made != nil {
		return *made
	}
	return nil
}

// Store keeps something instead.
func (s *Slot) Store(made any) { s.made.Store(&made) }

// CountsRunning reports whether the rule counts the requests that run, and nothing in a window.
func (r *Rule) CountsRunning() bool { return r.Algorithm == &RunningAlgorithm }

// EndsEarly reports whether a denial may end before its time.
func (r *Rule) EndsEarly() bool { return r.Refunds || r.CountsRunning() }

// LastReceipt returns the receipt of the charge that a state ends with, at an instant in ticks.
func (r *Rule) LastReceipt(s State, now int64) Receipt {
	v := Verdict{Next: s.Numbers}
	if s.Log != nil {
		v.Next = newEntry{tick: s.Log.Entries[len(s.Log.Entries)-1].Tick(now)}.numbers()
	}
	return r.Algorithm.Kernel.Receipt(v)
}

// Stricter returns the state that leaves less of two at an instant in microseconds.
func (r *Rule) Stricter(a, b State, now int64) State {
	t, k := &r.Params, r.Algorithm.Kernel
	x, y := k.Decide(a, now/t.Tick, t, 0, 0), k.Decide(b, now/t.Tick, t, 0, 0)
	if y.Remaining < x.Remaining || (y.Remaining == x.Remaining && y.Reset > x.Reset) {
		return b
	}
	return a
}

// ScaledBy returns the numbers scaled by a fraction above 0 and below 1: at least one unit. It reports false if
// rounding would make times longer than they can be.
func (r *Rule) ScaledBy(fraction float64) (Params, bool) {
	t := r.Params
	t.Limit = max(1, int64(float64(t.Limit)*fraction))
	t.Capacity = max(1, int64(float64(t.Capacity)*fraction))
	if r.Algorithm.Bursts {
		if t.Full = CeilDiv(t.Capacity*t.Window, t.Limit); t.Full > Precision/2/t.Tick {
			return t, false
		}
	}
	t.MaxDebt, t.Fraction = MostDebt(t.Limit, t.Tick), fraction
	return t, true
}
