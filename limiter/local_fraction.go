package limiter

import "slices"

// decideLocally decides by this process's fraction of the limits.
func (f *Failover) decideLocally(checks []Check) {
	if !f.isPartial() {
		f.local.decide(checks)
		return
	}
	own := slices.Clone(checks)
	for i := range own {
		f.scaleDown(&own[i])
	}
	f.local.decide(own)
	for i := range own {
		checks[i].Result, checks[i].receipt = own[i].Result, own[i].receipt
	}
}

// isPartial reports whether this process enforces a fraction of the limits in an outage.
func (f *Failover) isPartial() bool { return f.localFraction > 0 && f.localFraction < 1 }

// scaleDown scales a check to this process's fraction. A weight and what it leaves to others that fit the
// full capacity fit the scaled one too, and no others do.
func (f *Failover) scaleDown(c *Check) {
	full, never := c.Policy, c.neverPasses()
	c.Policy = f.localPolicy(full)
	capacity := c.Policy.Capacity()
	switch weight := c.units(); {
	case c.Peek:
	case weight > full.Capacity():
		return
	default:
		c.Weight = min(weight, capacity)
	}
	switch {
	case c.Leave == 0:
	case never:
		c.Leave = capacity
	default:
		leave := int64(float64(c.Leave) * f.localFraction)
		c.Leave = min(leave, capacity-max(1, c.units()), c.Policy.MostLeave())
	}
}

// localPolicy returns the policy scaled by this process's fraction. The policy caches it.
func (f *Failover) localPolicy(p *Policy) *Policy {
	if local := p.local.Load(); local != nil && local.fraction == f.localFraction {
		return local
	}
	local := p.scaled(f.localFraction)
	p.local.Store(local)
	return local
}

// scaled returns the policy with limits scaled by a fraction above 0 and below 1: at least one unit.
// It counts in the same states.
func (p *Policy) scaled(fraction float64) *Policy {
	t := p.params
	t.limit = max(1, int64(float64(t.limit)*fraction))
	t.capacity = max(1, int64(float64(t.capacity)*fraction))
	if t.full = ceilDiv(t.capacity*t.window, t.limit); t.full > precision/2/t.tick {
		return p // rounding would make it longer than times can be
	}
	t.maxDebt = mostDebt(t.limit, t.tick)
	local := &Policy{settings: p.settings, algorithm: p.algorithm, params: t, id: p.id, ban: p.ban, fraction: fraction}
	local.refunds.Store(p.refunds.Load())
	return local
}
