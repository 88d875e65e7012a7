package limiter

// This file is about the part of each limit that one of several processes enforces by itself while the
// shared store cannot decide.

// isPartial tells whether this process enforces a part of the limits in an outage.
func (f *Failover) isPartial() bool { return f.localFraction > 0 && f.localFraction < 1 }

// scaleDown makes a check one of this process's part. What fits the whole may pass, and only that.
func (f *Failover) scaleDown(c *Check) {
	whole := c.Policy
	c.Policy = f.localPolicy(whole)
	if c.Weight <= whole.Capacity() {
		c.Weight = min(c.Weight, c.Policy.Capacity())
	}
}

// localPolicy is the part of a policy that is this process's, which the policy remembers.
func (f *Failover) localPolicy(p *Policy) *Policy {
	if local := p.local.Load(); local != nil && local.fraction == f.localFraction {
		return local
	}
	local := p.scaled(f.localFraction)
	p.local.Store(local)
	return local
}

// scaled is the policy of which this process enforces the given part, above 0 and below 1, for
// itself: at least one unit. It counts in the same shares.
func (p *Policy) scaled(part float64) *Policy {
	t := p.params
	t.limit = max(1, int64(float64(t.limit)*part))
	t.capacity = max(1, int64(float64(t.capacity)*part))
	if ceilDiv(t.capacity*t.window, t.limit) > precision/2/t.tick {
		return p // rounding would make it longer than times can be
	}
	t.maxDebt = mostDebt(t.limit, t.tick)
	return &Policy{settings: p.settings, algorithm: p.algorithm, params: t, id: p.id, capacity: p.capacity, fraction: part}
}
