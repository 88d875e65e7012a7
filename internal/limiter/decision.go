package limiter

import (
	"fmt"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
)

// Kept returns what the stores keep of a check.
func Kept(c *Check) *kernel.Kept { return kernel.Open(&c.Ticket) }

// Units returns how many units the check takes.
func Units(c *Check) int64 {
	switch {
	case c.Peek:
		return 0
	case c.Weight == 0:
		return 1
	}
	return c.Weight
}

// Reserve returns the units that must stay for others when the check passes, at most the capacity. It is
// the capacity, so that no weight passes, if a queue cannot hold so much.
func Reserve(c *Check) int64 {
	if c.Reserve == 0 {
		return 0
	}
	return c.Policy.Params.Reserve(c.Reserve)
}

// NeverPasses reports whether the check asks for more than there can be.
func NeverPasses(c *Check) bool {
	return !c.Peek && Units(c) > c.Policy.Params.Capacity-Reserve(c)
}

// Change is what settling a check changes. The zero value changes nothing.
type Change struct {
	Units int64 // to charge; below 0 to refund
	Stays int64 // units that count for bans from then on
}

// SettleTo returns what settling the check to a cost changes. Without Refundable what it took stays, and is counted
// for bans already. What a running request took, it has until it ends.
func SettleTo(c *Check, cost int64) (change Change) {
	if c.Policy.CountsRunning {
		return Change{}
	}
	taken := Units(c)
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

// Validate reports what is wrong with the checks of a request.
func Validate(checks []Check) error {
	if len(checks) == 0 {
		return fmt.Errorf("%w: there is none; name at least one policy", ErrInvalidCheck)
	}
	for i := range checks {
		c := &checks[i]
		switch {
		case c.Policy == nil || c.Policy.Algorithm == nil:
			return fmt.Errorf("%w: number %d has no Policy; make one by NewPolicy", ErrInvalidCheck, i)
		case c.Policy.Params.Capacity == 0:
			return fmt.Errorf("%w: number %d has the Policy of a request that is refused; do not have it decided", ErrInvalidCheck, i)
		case c.Weight < 0:
			return fmt.Errorf("%w: number %d has Weight %d; use a number from 1, or Peek", ErrInvalidCheck, i, c.Weight)
		case c.Reserve < 0:
			return fmt.Errorf("%w: number %d has Reserve %d; use a number from 0", ErrInvalidCheck, i, c.Reserve)
		}
	}
	if i, j := repeated(checks); j > 0 {
		return fmt.Errorf("%w: numbers %d and %d take from the same quota; add their weights", ErrInvalidCheck, i, j)
	}
	return nil
}

// fewChecks is how many checks are compared one by one. A map takes longer to fill than it saves then.
const fewChecks = 16

// repeated returns the numbers of two checks that take from one quota, and 0, 0 if there are none.
func repeated(checks []Check) (first, second int) {
	if len(checks) > fewChecks {
		numbers := make(map[QuotaName]int, len(checks))
		for i := range checks {
			name := QuotaNameOf(&checks[i])
			if first, found := numbers[name]; found {
				return first, i
			}
			numbers[name] = i
		}
		return 0, 0
	}
	for i := range checks {
		for j := range checks[:i] {
			if checks[i].SameQuota(&checks[j]) {
				return j, i
			}
		}
	}
	return 0, 0
}

// Refundable reports whether a check needs a take that can be refunded.
func Refundable(checks []Check) bool {
	for i := range checks {
		if checks[i].Refundable {
			return true
		}
	}
	return false
}

// CountsRunning reports whether one of the checks counts running requests.
func CountsRunning(checks []Check) bool {
	for i := range checks {
		if checks[i].Policy.CountsRunning {
			return true
		}
	}
	return false
}

// ForgetRunning makes checks that may have been decided before have no part in what runs, and no receipt.
func ForgetRunning(checks []Check) {
	for i := range checks {
		checks[i].State.RunningUnits, checks[i].State.Owner, checks[i].State.Receipt = 0, nil, kernel.Receipt{}
	}
}

// QuotaName identifies the state of a key in a policy.
type QuotaName struct{ Policy, Key string }

// QuotaNameOf returns the name of the state that a check counts in.
func QuotaNameOf(c *Check) QuotaName { return QuotaName{c.Policy.ID, c.Key.String()} }
