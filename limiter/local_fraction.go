package limiter

import "slices"

// decideLocally decides by this process's fraction of the limits, and by its clock.
func (f *Failover) decideLocally(checks []Check) {
	if !f.isPartial() && !slices.ContainsFunc(checks, hasPeriods) {
		f.local.decide(checks)
		return
	}
	own := slices.Clone(checks)
	for i := range own {
		f.scaleDown(&own[i])
	}
	f.local.decide(own)
	for i := range own {
		copyAnswer(&checks[i], &own[i])
		keptOf(&checks[i]).Receipt = keptOf(&own[i]).Receipt
		if keptOf(&own[i]).Places > 0 { // it was decided by what is left of its weight, and runs with all of it
			keptOf(&checks[i]).Places = int32(unitsOf(&checks[i]))
			f.local.addRunning(&checks[i], int64(keptOf(&checks[i]).Places-keptOf(&own[i]).Places))
		}
	}
}

// isPartial reports whether this process enforces a fraction of the limits in an outage.
func (f *Failover) isPartial() bool { return f.localFraction > 0 && f.localFraction < 1 }

// scaleDown scales a check to this process's fraction, and to its clock. A weight and a reserve
// that fit the full capacity fit the scaled one too, and no others do.
func (f *Failover) scaleDown(c *Check) {
	full, never := c.Policy, neverPasses(c)
	c.Policy = f.localPolicy(full, c.Key)
	if !f.isPartial() {
		return
	}
	capacity := c.Policy.Capacity()
	switch weight := unitsOf(c); {
	case c.Peek:
	case weight > full.Capacity():
		return
	default:
		c.Weight = min(weight, capacity)
	}
	switch {
	case c.Reserve == 0:
	case never:
		c.Reserve = capacity
	default:
		reserve := int64(float64(c.Reserve) * f.localFraction)
		c.Reserve = min(reserve, capacity-max(1, unitsOf(c)), c.Policy.MostReserve())
	}
}

// localPolicy returns the policy as this process decides by it for a key while Redis does not: scaled by
// its fraction, with calendar periods as its clock shows them.
func (f *Failover) localPolicy(p *Policy, key EncodedKey) *Policy {
	if f.isPartial() {
		p = f.localShare(p)
	}
	return f.periodsHere(p, key)
}

// periodsHere returns the policy with calendar periods as this process's clock shows those of a key's Redis.
func (f *Failover) periodsHere(p *Policy, key EncodedKey) *Policy {
	if p.Rule().Params.Periods == nil || f.shared == nil {
		return p
	}
	offset, _ := f.shared.offset(f.shared.slotOf(key))
	ahead := offset.Microseconds()
	if local, made := p.Rule().Local.Load().(*Policy); made && local.Rule().Ahead == ahead && local.Rule().Fraction == p.Rule().Fraction {
		return local
	}
	local := byClock(p, ahead)
	p.Rule().Local.Store(local)
	return local
}

// localShare returns the policy scaled by this process's fraction. The policy caches it.
func (f *Failover) localShare(p *Policy) *Policy {
	if local, made := p.Rule().Local.Load().(*Policy); made && local.Rule().Fraction == f.localFraction {
		return local
	}
	local := scaled(p, f.localFraction)
	p.Rule().Local.Store(local)
	return local
}

// byClock returns a policy with its calendar periods by a clock that Redis's is so many microseconds ahead of.
func byClock(p *Policy, ahead int64) *Policy {
	t := p.Rule().Params
	t.Periods = t.Periods.By(ahead)
	other := p.With(t)
	other.Rule().Ahead = ahead
	return other
}

// scaled returns a policy with limits scaled by a fraction above 0 and below 1: at least one unit. It counts in the
// same states.
func scaled(p *Policy, fraction float64) *Policy {
	t, exact := p.Rule().ScaledBy(fraction)
	if !exact {
		return p
	}
	local := p.With(t)
	local.Rule().Fraction = fraction
	return local
}

// hasPeriods reports whether a check counts in calendar periods.
func hasPeriods(c Check) bool { return c.Policy.Rule().Params.Periods != nil }
