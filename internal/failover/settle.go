package failover

import (
	"errors"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
)

// Settle corrects what a check took to what its request really cost, in units, cut to 0 and 2^52. It charges the rest
// even if the quota has no room, so that later requests pay what this one overdrew; or it refunds what was too much. A
// cost of 0 refunds all units, a cost of the weight none. A check without Refundable is never refunded, and one with Peek
// took nothing. The check must have passed with all others of its request in a decision of that source.
//
// Settle does not wait, and must be called at most once. Units that Redis does not refund drain by themselves. While
// Redis fails a charge is kept in this process, and repaid when Redis decides again.
func (f *Store) Settle(check limiter.Check, cost int64, source limiter.Source) {
	change := limiter.SettleTo(&check, cost)
	if change != (limiter.Change{}) {
		f.settle(&check, change, f.effectiveSource(source))
		return
	}
	limiter.EndReservation(&check)
}

func (f *Store) settle(c *limiter.Check, change limiter.Change, source limiter.Source) {
	switch source {
	case limiter.SourceRedis:
		f.settleShared(c, change)
	case limiter.SourceMemory:
		f.local.SettleBy(c, change)
	default:
		f.ledger.correct(c, change.Units)
		f.settleHere(*c, change)
	}
	if source != limiter.SourceRedis {
		limiter.EndReservation(c)
	}
}

// settleShared settles a check on Redis, and keeps the result for an outage: if an earlier answer of Redis is kept, the
// refund is answered with the quota that is left, which replaces the earlier answer.
func (f *Store) settleShared(c *limiter.Check, change limiter.Change) {
	shows := change.Units < 0 && f.local.Remembers(c)
	f.shared.SettleThen(c, change, shows, func(e redis.Ended) {
		lost, c := e.Err() != nil, e.Check()
		limiter.EndReservation(c) // not before: a request may be denied until Redis has refunded
		switch p := notExecuted(e); {
		case p != nil:
			lost = f.settleNotExecuted(p, e.Err())
		case change.Units > 0:
			f.local.RememberCharge(c, change.Units, f.periodsHere(c.Policy, c.Key))
		case shows && !lost:
			f.local.RememberRefund(c)
		}
		if lost {
			f.shared.Topology.AnyNode.Lose(e.Err())
		}
	})
}

// settleNotExecuted settles a check in this process because Redis did not run its change, and puts a charge into the
// ledger. It reports whether Redis will never get the change: a refund, or the ledger is full.
func (f *Store) settleNotExecuted(p *redis.Payload, err error) (lost bool) {
	c, change := &p.Checks[0], p.Changes[0].Change
	change.Units = max(0, change.Units)
	lost = errors.Is(err, limiter.ErrClosed) || !f.ledger.correct(c, change.Units)
	f.settleHere(*c, change)
	return lost
}

// settleHere settles a check in this process instead of Redis. If this process enforces a fraction of the limits, the
// fraction's capacity is the most that a check has taken and the most that it costs.
func (f *Store) settleHere(c limiter.Check, change limiter.Change) {
	cost := limiter.Taken(&c) + change.Units
	f.scaleDown(&c)
	if f.isPartial() {
		change.Units = min(cost, c.Policy.Capacity()) - limiter.Taken(&c)
		change.Stays = min(change.Stays, c.Policy.Capacity())
	}
	f.local.SettleBy(&c, change)
}
