package limiter

import (
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
)

// MaxCharge is the most units that can be charged at once, 2^52.
const MaxCharge = kernel.MaxCharge

// Change is what settling a check changes. The zero value changes nothing.
type Change struct {
	Units int64 // to charge; below 0 to refund
	Stays int64 // units that count for bans from then on
}

// SettleTo returns what settling the check to a cost changes. Without Refundable the units that the check took stay, and
// are counted for bans already. A running request keeps its units until it ends, whatever it costs.
func SettleTo(c *Check, cost int64) (change Change) {
	if c.Policy.CountsRunning {
		return Change{}
	}
	taken := Taken(c)
	cost = min(max(0, cost), MaxCharge)
	if !c.Refundable {
		cost = max(cost, taken)
	}
	change.Units = cost - taken
	if c.Policy.Ban != nil && c.Policy.Refunds {
		if change.Stays = cost; !c.Refundable {
			change.Stays = change.Units
		}
	}
	return change
}

// Awaited is a check's units that may be refunded, for those who wait for that.
type Awaited interface {
	// Begin notes that the check has passed and taken its units.
	Begin(c *Check)

	// End notes that the units of the check were refunded, all or some, or stay.
	End(c *Check)
}

// BeginReservation notes that a check has passed whose units may be refunded.
func BeginReservation(c *Check) {
	if r, ok := c.State.Owner.(Awaited); ok {
		r.Begin(c)
	}
}

// EndReservation ends what [BeginReservation] began: the units were refunded, all or some, or stay.
func EndReservation(c *Check) {
	if r, ok := c.State.Owner.(Awaited); ok {
		r.End(c)
	}
}
