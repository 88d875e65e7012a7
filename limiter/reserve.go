package limiter

// This file is what stores have in common about units that must stay for others. Kernels and
// scripts decide by them, and answer with all that remains; here a part of it is withheld.

// reserve returns the units that must stay for others when the check passes, at most the capacity. It is
// the capacity, so that no weight passes, where a queue cannot hold so much.
func (c *Check) reserve() int64 {
	if c.Reserve == 0 {
		return 0
	}
	return c.Policy.params.reserve(c.Reserve)
}

func (p *params) reserve(reserve int64) int64 {
	if reserve > p.mostReserve() {
		return p.capacity
	}
	return reserve
}

// mostReserve returns the largest reserve with which a request can pass, if it takes one.
func (p *params) mostReserve() int64 {
	if p.maxDelay < 0 || p.maxDelay >= p.full {
		return p.capacity - 1
	}
	return min(p.capacity-1, p.maxDelay*p.limit/p.window)
}

// MostReserve returns the largest [Check].Reserve of the policy with which a request of one unit can pass.
func (p *Policy) MostReserve() int64 { return p.params.mostReserve() }

// neverPasses reports whether the check asks for more than there can be.
func (c *Check) neverPasses() bool {
	return !c.Peek && c.units() > c.Policy.params.capacity-c.reserve()
}

// beyondQueue marks the remaining units of a queue in which those for others would wait too long, so that
// a request that reserves them finds nothing. It undoes itself. Lua twin: the end of decide in
// scripts/bucket.lua.
func beyondQueue(remaining int64) int64 { return -1 - remaining }

// Unused returns the units of the quota that remain, with those that must stay for others.
func (c *Check) Unused() int64 { return c.Result.Remaining + c.withheld }

// answeredBy takes over the answer to another check of the same units.
func (c *Check) answeredBy(other *Check) { c.Result, c.withheld = other.Result, other.withheld }

// withhold completes the result of a check with a reserve, whose Remaining is what a kernel
// or a script has answered: these units are not shown, and a denial for their sake alone is marked.
func (c *Check) withhold() {
	c.withheld = 0
	if c.Reserve != 0 {
		c.withholdReserve()
	}
}

func (c *Check) withholdReserve() {
	r, shown := &c.Result, int64(0)
	if r.Remaining < 0 {
		r.Remaining = beyondQueue(r.Remaining)
	} else {
		shown = max(0, r.Remaining-c.reserve())
	}
	r.ForOthers = !r.Passes() && !r.Banned && r.Remaining >= c.units()
	c.withheld, r.Remaining = r.Remaining-shown, shown
}
