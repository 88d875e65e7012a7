package failover

import (
	"slices"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// decideLocally decides in this process, by its fraction of the limits and by its clock.
func (f *Store) decideLocally(checks []limiter.Check) {
	if !f.isPartial() && !slices.ContainsFunc(checks, hasPeriods) {
		f.local.DecideNow(checks)
		return
	}
	own := slices.Clone(checks)
	for i := range own {
		f.scaleDown(&own[i])
	}
	f.local.DecideNow(own)
	for i := range own {
		limiter.CopyAnswer(&checks[i], &own[i])
		checks[i].State.Receipt, checks[i].State.Scaled = own[i].State.Receipt, f.isPartial()
		if own[i].State.RunningUnits > 0 { // the weight was cut to the local share for the decision; the whole weight runs
			checks[i].State.RunningUnits = int32(limiter.Units(&checks[i]))
			f.local.AddRunning(&checks[i], int64(checks[i].State.RunningUnits-own[i].State.RunningUnits))
		}
	}
}

// isPartial reports whether this process enforces a fraction of the limits in an outage.
func (f *Store) isPartial() bool { return f.localFraction > 0 && f.localFraction < 1 }

// scaleDown scales a check to this process's fraction of the limits, and to its clock. A weight and a reserve that fit
// the full capacity are cut to fit the scaled one; those that do not fit the full capacity never fit.
func (f *Store) scaleDown(c *limiter.Check) {
	full, never := c.Policy, limiter.NeverPasses(c)
	c.Policy = f.localPolicy(full, c.Key)
	if !f.isPartial() {
		return
	}
	capacity := c.Policy.Capacity()
	switch weight := limiter.Units(c); {
	case c.Peek:
	case weight > full.Capacity():
		return
	default:
		c.Weight = min(weight, capacity)
		c.Credit = min(c.Credit, c.Weight)
	}
	switch {
	case c.Reserve == 0:
	case never:
		c.Reserve = capacity
	default:
		reserve := int64(float64(c.Reserve) * f.localFraction)
		c.Reserve = min(reserve, capacity-max(1, limiter.Units(c)), c.Policy.MostReserve())
	}
}

// localPolicy returns the policy as this process decides by it for a key while Redis does not: scaled by
// its fraction, with calendar periods as its clock shows them.
func (f *Store) localPolicy(p *limiter.Policy, key limiter.EncodedKey) *limiter.Policy {
	if f.isPartial() {
		p = f.localShare(p)
	}
	return f.periodsHere(p, key)
}

// periodsHere returns the policy with calendar periods as this process's clock shows those of a key's Redis.
func (f *Store) periodsHere(p *limiter.Policy, key limiter.EncodedKey) *limiter.Policy {
	if p.Params.Periods == nil || f.shared == nil {
		return p
	}
	offset, _ := f.shared.Offset(f.shared.SlotOf(key))
	ahead := offset.Microseconds()
	if local := p.Local.Load(); local != nil && local.Params.Ahead == ahead && local.Params.Fraction == p.Params.Fraction {
		return local
	}
	local := byClock(p, ahead)
	p.Local.Store(local)
	return local
}

// localShare returns the policy scaled by this process's fraction. The policy caches it.
func (f *Store) localShare(p *limiter.Policy) *limiter.Policy {
	if local := p.Local.Load(); local != nil && local.Params.Fraction == f.localFraction {
		return local
	}
	local := scaled(p, f.localFraction)
	p.Local.Store(local)
	return local
}

// byClock returns a policy with its calendar periods by the clock of this process, if Redis's is `ahead` microseconds
// ahead of it.
func byClock(p *limiter.Policy, ahead int64) *limiter.Policy {
	t := p.Params
	t.Periods, t.Ahead = t.Periods.By(ahead), ahead
	return p.With(t)
}

// scaled returns a policy with limits scaled by a fraction above 0 and below 1: at least one unit. It counts in the
// same states.
func scaled(p *limiter.Policy, fraction float64) *limiter.Policy {
	t, exact := p.ScaledBy(fraction)
	if !exact {
		return p
	}
	return p.With(t)
}

// hasPeriods reports whether a check counts in calendar periods.
func hasPeriods(c limiter.Check) bool { return c.Policy.Params.Periods != nil }
