package failover

import (
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// This file counts looks whose responses may be charged. A request that only looks takes nothing before its response, so that
// a page of a hundred pictures is none too many where few responses count. What bounds those that do count is how many looks
// of a quota are in flight on a node at once:
//
//	limit 10, 100 in flight:   109 requests at once all look, and pass; their responses all count: 109 of 10
//	the 110th, meanwhile:      denied for a second
//	the next, after them:      denied by the quota
//
// Units that were taken for requests that may still be refunded are left out of what a look sees, or five slow log-ins would
// keep a page's pictures away.

// look is what a check holds that looks, from its decision until its response is charged.
type look struct {
	in    *unsettled
	units int64 // 0: it has ended
}

var _ limiter.Awaited = (*look)(nil) // a check holds it as any

// Begin implements [limiter.Awaited]. A look takes nothing.
func (*look) Begin(*limiter.Check) {}

// End implements [limiter.Awaited]. The second time it changes nothing.
func (l *look) End(c *limiter.Check) {
	if l.units > 0 {
		l.in.add(c, unsettledQuota{looking: -l.units})
		l.units = 0
	}
}

// lend sets the credit of looks.
func (u *unsettled) lend(checks []limiter.Check) {
	for i := range checks {
		if c := &checks[i]; c.Look && c.Policy.Refunds {
			c.Credit = min(limiter.Units(c), u.of(c, clock.Now()))
		}
	}
}

// beginLooks sets the credit of looks, and counts those that are in flight from now on. If one of them would be too many, its
// check is denied, and none is counted.
func (u *unsettled) beginLooks(checks []limiter.Check) (full localDenial) {
	for i := range checks {
		c := &checks[i]
		switch {
		case !c.Look:
		case c.InFlight == 0:
			u.lend(checks[i : i+1])
		case !u.beginLook(c):
			full.deny(c, limiter.Result{RetryAfter: refundWait, ResetAfter: refundWait})
		}
	}
	if full.denies {
		endLooks(checks)
	}
	return full
}

// beginLook sets the credit of a look and counts its units as in flight, if they have room there.
func (u *unsettled) beginLook(c *limiter.Check) bool {
	units := limiter.Units(c)
	s, name := u.shards.Of(c.Key.String()), limiter.QuotaNameOf(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.quotas[name]
	if q.looking > 0 && units > c.InFlight-q.looking {
		return false
	}
	c.Credit = 0
	if q.units > 0 {
		c.Credit = min(units, q.taken(clock.Now()))
	}
	q.looking += units
	s.put(name, q)
	c.State.Owner = &look{u, units}
	return true
}

// endLooks ends looks whose request did not pass.
func endLooks(checks []limiter.Check) {
	for i := range checks {
		if checks[i].Look {
			limiter.EndReservation(&checks[i])
			checks[i].State.Owner = nil
		}
	}
}

// looksIn returns the units of looks that are in flight in a policy.
func (u *unsettled) looksIn(p *limiter.Policy) (units int64) {
	for s := range u.shards.All() {
		s.mu.Lock()
		for name, q := range s.quotas {
			if of, _, _ := strings.Cut(name.Policy, ":"); of == p.Name() { // of months from any day
				units += q.looking
			}
		}
		s.mu.Unlock()
	}
	return units
}
