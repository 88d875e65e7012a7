package limiter

import "errors"

// Settle corrects what a check took to what its request really cost, in units, cut to 0 and 2^52. It charges the rest
// without asking for room, so that later requests pay what this one overdrew; or it refunds what was too much. A cost
// of 0 refunds all, one of the weight has all stay. What a check took without Refundable is never refunded; one with
// Peek took nothing. The check must have passed with all others of its request in a decision of that source.
//
// Settle does not wait, and must be called at most once. What Redis does not refund drains by itself. While Redis
// fails a charge is kept in this process, and repaid when Redis decides again.
func (f *Failover) Settle(check Check, cost int64, source Source) {
	if settleTo(&check, cost) {
		f.settle(&check, f.possible(source))
	}
	endReservation(&check, keptOf(&check).Change < 0)
}

func (f *Failover) settle(c *Check, source Source) {
	switch source {
	case SourceRedis:
		f.settleShared(c)
	case SourceMemory:
		f.local.on(c, (*shard).settle)
	default:
		f.ledger.settle(c)
		f.settleHere(*c)
	}
}

// settleShared settles a check on Redis, and keeps the result for an outage. The quota as it stands after a refund
// replaces the answer that is kept, if there is one.
func (f *Failover) settleShared(c *Check) {
	shows := keptOf(c).Change < 0 && f.local.remembers(c)
	f.shared.settle(c, shows, func(c *Check, err error) {
		lost := err != nil
		switch {
		case lost && !isLost(err):
			lost = f.settleUnsent(c, err)
		case keptOf(c).Change > 0:
			f.local.rememberCharge(c, f.periodsHere(c.Policy, c.Key))
		case shows && !lost:
			f.local.rememberRefund(c)
		}
		if lost {
			f.shared.topology.anyNode.lose(opSettle, err)
		}
	})
}

// settleUnsent does here what Redis has certainly not done, and reports whether Redis will never do it: a refund, or
// a charge without a place in the ledger.
func (f *Failover) settleUnsent(c *Check, err error) (lost bool) {
	here := *c
	keptOf(&here).Change = max(0, keptOf(c).Change)
	lost = errors.Is(err, errClosed) || !f.ledger.settle(&here)
	f.settleHere(here)
	return lost
}

// settleHere settles a check in this process instead of Redis. A fraction of the limits counts at most its own
// capacity of what was taken, and of what it cost.
func (f *Failover) settleHere(c Check) {
	cost := unitsOf(&c) + keptOf(&c).Change
	f.scaleDown(&c)
	if f.isPartial() {
		keptOf(&c).Change = min(cost, c.Policy.Capacity()) - unitsOf(&c)
		keptOf(&c).Stays = min(keptOf(&c).Stays, c.Policy.Capacity())
	}
	f.local.on(&c, (*shard).settle)
}
