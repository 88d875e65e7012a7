package kernel

import (
	"sync/atomic"
	"time"
)

// Rule is what a policy decides by: numbers that the stores read, and what they made of them.
type Rule struct {
	Algorithm *Algorithm
	Params    Params
	ID        string        // names the states that the rule counts in
	Ban       *Ban          // nil: none
	Lease     time.Duration // the longest on this node; 0: none
	Salt      uint64        // mixed into hashes of keys
	Fraction  float64       // of the limits it was scaled from; 0: not scaled
	Ahead     int64         // microseconds that Redis's clock is ahead of the one it decides by
	Refunds   atomic.Bool   // charges may be undone: no deny cache

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

// EndsEarly reports whether a denial may end before its time.
func (r *Rule) EndsEarly() bool { return r.Refunds.Load() || r.Algorithm.Running }

// Stricter returns the state that leaves less of two at an instant in microseconds.
func (r *Rule) Stricter(a, b State, now int64) State {
	t, k := &r.Params, r.Algorithm.Kernel
	x, y := k.Decide(a, now/t.Tick, t, 0, 0), k.Decide(b, now/t.Tick, t, 0, 0)
	if y.Remaining < x.Remaining || (y.Remaining == x.Remaining && y.Reset > x.Reset) {
		return b
	}
	return a
}

// ScaledBy returns the numbers scaled by a fraction above 0 and below 1: at least one unit. It reports false where
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
	t.MaxDebt = MostDebt(t.Limit, t.Tick)
	return t, true
}
