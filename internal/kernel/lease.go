package kernel

import "time"

// This file is what the kernels have in common about leases: units that a node takes ahead of its
// requests, to spend them on its own clock for a while. What a node spends until the lease ends is what
// the algorithm would admit at those instants. Each kernel's part says why. Lua twins: scripts/lease.lua
// and the fragments of leases.

// Wish is what a node asks for.
type Wish struct{ Units, Lasts int64 } // ticks

// Lease is units that were taken ahead. They may be spent until `Lasts` ticks after the take.
type Lease struct {
	Units, Lasts int64
	Receipt      Receipt
}

// LongestLease returns the longest lease of all nodes in ticks. It depends on the window alone, so that all
// configurations agree.
func (p *Params) LongestLease() int64 { return min(p.Window/100, MaxLease.Microseconds()/p.Tick) }

// wishes returns a wish as it can be granted at most.
func (p *Params) wishes(w Wish) Wish {
	w.Lasts = min(w.Lasts, p.LongestLease())
	if w.Lasts < 1 {
		w.Units = 0
	}
	return w
}

// leasable returns how many of the units that are left may be leased: a quarter at most, because other
// nodes have requests too. Few units are not worth it.
func leasable(left, want int64) int64 {
	if left < 4*4 {
		return 0
	}
	return min(want, left/4)
}

// within returns a wish for the rest of a window.
func (w Wish) within(ends int64) Wish {
	if w.Lasts > ends {
		w.Units, w.Lasts = w.Units*ends/w.Lasts, ends
	}
	return w
}

// leaseInWindow leases by a kernel that counts in windows. A lease ends with its window at the latest, and the state so
// long after that.
func leaseInWindow(k kernel, s State, now int64, t *Params, weight, reserve int64, wish Wish, after int64) (Verdict, Lease, State) {
	v := k.Decide(s, now, t, weight, reserve)
	if v.Wait != 0 {
		return v, Lease{}, s
	}
	w := windowOf(v.Next)
	ends := (w.index+1)*t.Window - now
	wish = t.wishes(wish).within(ends)
	l := Lease{leasable(v.Remaining-reserve, wish.Units), wish.Lasts, k.Receipt(v)}
	if weight+l.Units == 0 {
		return v, l, s
	}
	w.count += l.Units
	v.Next, v.Reset = w.numbers(), ends+after
	return v, l, k.Take(s, t, v, false)
}

// MaxLease is the longest that a lease lasts whatever the window.
const MaxLease = time.Second
