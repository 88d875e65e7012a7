package failover

import (
	"errors"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/decision"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/wire"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
)

// Settle corrects what a check took to what its request really cost, in units, cut to 0 and 2^52. It charges the rest
// without asking for room, so that later requests pay what this one overdrew; or it refunds what was too much. A cost
// of 0 refunds all, one of the weight has all stay. What a check took without Refundable is never refunded; one with
// Peek took nothing. The check must have passed with all others of its request in a decision of that source.
//
// Settle does not wait, and must be called at most once. What Redis does not refund drains by itself. While Redis
// fails a charge is kept in this process, and repaid when Redis decides again.
func (f *Store) Settle(check limiter.Check, cost int64, source limiter.Source) {
	if decision.SettleTo(&check, cost) {
		f.settle(&check, f.possible(source))
	}
	decision.EndReservation(&check, decision.Kept(&check).Change < 0)
}

func (f *Store) settle(c *limiter.Check, source limiter.Source) {
	switch source {
	case limiter.SourceRedis:
		f.settleShared(c)
	case limiter.SourceMemory:
		f.local.On(c, (*memory.Shard).Settle)
	default:
		f.ledger.settle(c)
		f.settleHere(*c)
	}
}

// settleShared settles a check on Redis, and keeps the result for an outage. The quota as it stands after a refund
// replaces the answer that is kept, if there is one.
func (f *Store) settleShared(c *limiter.Check) {
	shows := decision.Kept(c).Change < 0 && f.local.Remembers(c)
	f.shared.SettleThen(c, shows, func(c *limiter.Check, err error) {
		lost := err != nil
		switch {
		case lost && !wire.IsLost(err):
			lost = f.settleUnsent(c, err)
		case decision.Kept(c).Change > 0:
			f.local.RememberCharge(c, f.periodsHere(c.Policy, c.Key))
		case shows && !lost:
			f.local.RememberRefund(c)
		}
		if lost {
			f.shared.Topology.AnyNode.Lose(wire.OpSettle, err)
		}
	})
}

// settleUnsent does here what Redis has certainly not done, and reports whether Redis will never do it: a refund, or
// a charge without a place in the ledger.
func (f *Store) settleUnsent(c *limiter.Check, err error) (lost bool) {
	here := *c
	decision.Kept(&here).Change = max(0, decision.Kept(c).Change)
	lost = errors.Is(err, decision.ErrClosed) || !f.ledger.settle(&here)
	f.settleHere(here)
	return lost
}

// settleHere settles a check in this process instead of Redis. A fraction of the limits counts at most its own
// capacity of what was taken, and of what it cost.
func (f *Store) settleHere(c limiter.Check) {
	cost := decision.Units(&c) + decision.Kept(&c).Change
	f.scaleDown(&c)
	if f.isPartial() {
		decision.Kept(&c).Change = min(cost, c.Policy.Capacity()) - decision.Units(&c)
		decision.Kept(&c).Stays = min(decision.Kept(&c).Stays, c.Policy.Capacity())
	}
	f.local.On(&c, (*memory.Shard).Settle)
}
