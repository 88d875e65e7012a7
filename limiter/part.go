package limiter

// This file is about the part of each limit that one of several processes enforces by itself while the
// shared store cannot decide.

// isPartial tells whether this process enforces a part of the limits in an outage.
func (g *Guard) isPartial() bool { return g.part > 0 && g.part < 1 }

// reduce makes a check one of this process's part. What fits the whole may pass, and only that.
func (g *Guard) reduce(c *Check) {
	whole := c.Policy
	c.Policy = g.partOf(whole)
	if c.Weight <= whole.Capacity() {
		c.Weight = min(c.Weight, c.Policy.Capacity())
	}
}

// partOf is the part of a policy that is this process's, which the policy remembers.
func (g *Guard) partOf(p *Policy) *Policy {
	if local := p.local.Load(); local != nil && local.part == g.part {
		return local
	}
	local := p.scaled(g.part)
	p.local.Store(local)
	return local
}

// scaled is the policy of which this process enforces the given part, above 0 and below 1, for
// itself: at least one unit. It counts in the same shares.
func (p *Policy) scaled(part float64) *Policy {
	t := p.terms
	t.limit = max(1, int64(float64(t.limit)*part))
	t.capacity = max(1, int64(float64(t.capacity)*part))
	if cd(t.capacity*t.window, t.limit) > precision/2/t.tick {
		return p // rounding would make it longer than times can be
	}
	t.maxDebt = mostDebt(t.limit, t.tick)
	return &Policy{settings: p.settings, algorithm: p.algorithm, terms: t, id: p.id, capacity: p.capacity, part: part}
}
