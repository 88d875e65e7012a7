package limiter

import "time"

// This file is what the kernels have in common about leases: units that a node takes ahead of its
// requests, to spend them on its own clock for a while. What a node spends until the lease ends is what
// the algorithm would admit at those instants. Each kernel's part says why. Lua twins: scripts/lease.lua
// and the fragments of leases.

// leasingKernel is a kernel whose units can be taken ahead. Its Lua twin has a second fragment,
// <name>_lease.lua.
type leasingKernel interface {
	kernel

	// lease decides a request of this weight, which may be 0, and takes units ahead of later ones where it
	// passes. The verdict's remaining is what was left before, its reset that of the state afterwards.
	lease(s state, now int64, t *params, weight, reserve int64, wish leaseWish) (verdict, lease, state)

	// giveBack returns the state without units of a lease that were not spent. It never returns more than
	// the lease still holds of the state, however late it is.
	giveBack(s state, now int64, t *params, units int64, r receipt) state
}

// leases reports whether units of the algorithm can be taken ahead.
func (a *algorithm) leases() bool {
	_, ok := a.kernel.(leasingKernel)
	return ok
}

// leaseWish is what a node asks for.
type leaseWish struct{ units, lasts int64 } // ticks

// lease is units that were taken ahead. They may be spent for so many ticks from the take on.
type lease struct {
	units, lasts int64
	receipt      receipt
}

// longestLease returns the longest lease of anybody in ticks. It depends on the window alone, so that all
// configurations agree.
func (p *params) longestLease() int64 { return min(p.window/100, maxLease.Microseconds()/p.tick) }

// wishes returns a wish as it can be granted at most.
func (p *params) wishes(w leaseWish) leaseWish {
	w.lasts = min(w.lasts, p.longestLease())
	if w.lasts < 1 {
		w.units = 0
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
func (w leaseWish) within(ends int64) leaseWish {
	if w.lasts > ends {
		w.units, w.lasts = w.units*ends/w.lasts, ends
	}
	return w
}

// leaseInWindow leases by a kernel that counts in windows, of which a verdict has the index and the units. A lease
// ends with its window at the latest, and the state so long after that.
func leaseInWindow(k kernel, s state, now int64, t *params, weight, reserve int64, wish leaseWish, after int64) (verdict, lease, state) {
	v := k.decide(s, now, t, weight, reserve)
	if v.wait != 0 {
		return v, lease{}, s
	}
	ends := (v.a+1)*t.window - now
	wish = t.wishes(wish).within(ends)
	l := lease{leasable(v.remaining-reserve, wish.units), wish.lasts, k.receipt(v)}
	if weight+l.units == 0 {
		return v, l, s
	}
	v.b, v.reset = v.b+l.units, ends+after
	return v, l, k.take(s, t, v, false)
}

// maxLease is the longest that a lease lasts whatever the window.
const maxLease = time.Second
