package limiter

import "errors"

// SettleCost makes what a request took what it turned out to cost: it charges the rest of the cost, or
// refunds what its estimate, the check's weight, was too high by. The check is Refundable; without that, or
// with Peek, nothing is refunded. It must have passed with all others of its request in a decision of that
// source. The cost is in units, from 0 to 2^52, and cut to that.
//
// SettleCost does not wait, and must be called at most once, and without [Failover.Refund],
// [Failover.Charge] or [Failover.Confirm] of the check. A rest is charged as Charge does, a refund made as
// Refund does.
func (f *Failover) SettleCost(check Check, cost int64, source Source) {
	source = f.possible(source)
	cost = min(max(0, cost), MaxCharge)
	estimate := check.units()
	if cost > 0 {
		c := check
		c.Weight, c.Peek = cost, false
		f.confirm([]Check{c}, source)
	}
	switch {
	case cost > estimate:
		f.chargeRest(check, cost, source)
	case cost < estimate:
		f.refundExcess(check, estimate-cost, source)
	}
	check.reserved.end(cost < estimate)
}

// chargeRest charges what a cost is above the estimate that was taken. In an outage a fraction of the
// limits counts at most its own capacity of either.
func (f *Failover) chargeRest(c Check, cost int64, source Source) {
	estimate := c.units()
	c.Weight, c.Peek = cost-estimate, false
	local := c
	local.Policy = f.localPolicy(c.Policy, c.Key)
	if f.isPartial() {
		capacity := local.Policy.Capacity()
		local.Weight = min(cost, capacity) - min(estimate, capacity)
	}
	f.chargeOne(&c, &local, source)
}

// refundExcess refunds units of a reservation, fewer than all.
func (f *Failover) refundExcess(c Check, excess int64, source Source) {
	c.excess = excess
	if source == SourceRedis {
		f.refundShared([]Check{c})
		return
	}
	f.refundHere(c, source)
}

// Charge charges the units that a request turned out to cost, the checks' weights, after a decision of
// that source; also those of checks with Peek. It needs no room: later requests pay what this one
// overdrew. It does not wait. While Redis fails the debt is kept in this process, and settled when
// Redis decides again. Weights are at most 2^52; one of 0 charges nothing.
func (f *Failover) Charge(checks []Check, source Source) {
	source = f.possible(source)
	for i := range checks {
		c := checks[i]
		c.Weight, c.Peek = min(c.Weight, MaxCharge), false
		if c.Weight <= 0 {
			continue
		}
		f.confirm([]Check{c}, source)
		local := c
		local.Policy = f.localPolicy(c.Policy, c.Key)
		f.chargeOne(&c, &local, source)
	}
}

// chargeOne charges a check, of a weight from 1, to Redis, or in this process where that fails or has
// decided. There the fraction of the limits that it enforces is charged, of a weight from 0.
func (f *Failover) chargeOne(c, local *Check, source Source) {
	switch source {
	case SourceMemory:
		f.chargeHere(*c)
	case SourceRedis:
		here := *local
		f.shared.chargeAsync(c, f.rememberCharge, func(c *Check, err error) {
			if kept := !errors.Is(err, errClosed) && f.ledger.charge(c); !kept {
				f.shared.topology.anyNode.lose(opCharge, err)
			}
			f.chargeHere(here)
		})
	default:
		f.ledger.charge(c)
		f.chargeHere(*local)
	}
}

// rememberCharge keeps what Redis has charged for an outage, as [Failover.remember] keeps its answers.
func (f *Failover) rememberCharge(c *Check) {
	f.local.rememberCharge(c, f.periodsHere(c.Policy, c.Key))
}

// chargeHere charges a check in this process, of a weight from 0.
func (f *Failover) chargeHere(c Check) {
	if c.Weight > 0 {
		f.local.Charge([]Check{c})
	}
}
