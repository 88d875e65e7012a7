package failover

import (
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// This file shortens the Retry-After of a request that is denied while requests in flight may still refund what it
// misses:
//
//	0.0 s  Seven log-ins at once. Five take the limit of 5 in 15 minutes, two are denied.
//	0.6 s  The five passwords were right, and their units are refunded.
//
// The two may come back in a second, and not in 15 minutes.

// pending is what a check holds until it is settled: where its units are counted as unsettled, and what they are in the
// ledger of an outage.
type pending struct {
	in    *unsettled // nil: they are not counted
	units int64      // that are counted; 0 before the check has passed, and after it was settled
	owed  owedTake
}

var _ limiter.Awaited = (*pending)(nil) // a check holds it as any

// pendingOf returns what a check holds, nil if it holds nothing.
func pendingOf(c *limiter.Check) *pending {
	p, _ := c.State.Owner.(*pending)
	return p
}

// awaitRefunds makes the refundable checks count as unsettled from the moment that they pass.
func (f *Store) awaitRefunds(checks []limiter.Check) {
	for i := range checks {
		if c := &checks[i]; c.Refundable && !c.Peek && !c.Policy.CountsRunning {
			c.State.Owner = &pending{in: &f.unsettled}
		}
	}
}

// Begin implements [limiter.Awaited]. It runs before any request learns that it was denied for these units.
func (p *pending) Begin(c *limiter.Check) {
	if p.in != nil && p.units == 0 {
		p.units = limiter.Units(c)
		p.in.add(c, unsettledQuota{units: p.units, until: clock.Now().Add(c.Result.ResetAfter)})
	}
}

// End implements [limiter.Awaited]. The second time it changes nothing.
func (p *pending) End(c *limiter.Check) {
	if p.units > 0 {
		p.in.add(c, unsettledQuota{units: -p.units})
		p.units = 0
	}
}

// shortenRetryAfter makes RetryAfter a second for each denied check whose missing units are unsettled on this node.
// What a quota lacks beyond its capacity, by an earlier charge into debt, is not known here.
func (f *Store) shortenRetryAfter(checks []limiter.Check) {
	for i := range checks {
		c := &checks[i]
		if c.Result.RetryAfter <= refundWait || c.Result.Banned || !c.Policy.Refunds {
			continue
		}
		missing := limiter.Units(c) + limiter.NetReserve(c) - c.Unused()
		if units := f.unsettled.of(c, clock.Now()); units > 0 && missing <= units {
			c.Result.RetryAfter = refundWait
		}
	}
}
