package limiter

import (
	"fmt"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
)

// KeptOf returns what the stores keep of a check.
func KeptOf(c *Check) *kernel.Kept { return kernel.Open(&c.Ticket) }

// units returns how many units the check takes.
func UnitsOf(c *Check) int64 {
	switch {
	case c.Peek:
		return 0
	case c.Weight == 0:
		return 1
	}
	return c.Weight
}

// reserve returns the units that must stay for others when the check passes, at most the capacity. It is
// the capacity, so that no weight passes, where a queue cannot hold so much.
func ReserveOf(c *Check) int64 {
	if c.Reserve == 0 {
		return 0
	}
	return c.Policy.rule.Params.Reserve(c.Reserve)
}

// NeverPasses reports whether the check asks for more than there can be.
func NeverPasses(c *Check) bool {
	return !c.Peek && UnitsOf(c) > c.Policy.rule.Params.Capacity-ReserveOf(c)
}

// SettleTo notes what settling the check to a cost changes, and reports whether it changes anything. Without Refundable
// what it took stays, and is counted for bans already.
func SettleTo(c *Check, cost int64) bool {
	taken := UnitsOf(c)
	cost = min(max(0, cost), MaxCharge)
	if !c.Refundable {
		cost = max(cost, taken)
	}
	KeptOf(c).Change, KeptOf(c).Stays = cost-taken, 0
	if c.Policy.rule.Ban != nil && c.Policy.rule.Refunds.Load() {
		if KeptOf(c).Stays = cost; !c.Refundable {
			KeptOf(c).Stays = KeptOf(c).Change
		}
	}
	return KeptOf(c).Change != 0 || KeptOf(c).Stays != 0
}

// Validate reports what is wrong with the checks of a request.
func Validate(checks []Check) error {
	if len(checks) == 0 {
		return fmt.Errorf("%w: there is none; name at least one policy", ErrInvalidCheck)
	}
	for i := range checks {
		c := &checks[i]
		switch {
		case c.Policy == nil || c.Policy.rule.Algorithm == nil:
			return fmt.Errorf("%w: number %d has no Policy; make one by NewPolicy", ErrInvalidCheck, i)
		case c.Policy.rule.Params.Capacity == 0:
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

// repeated returns the numbers of two checks that take from one quota, and 0, 0 where there are none.
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
		if checks[i].Policy.CountsRunning() {
			return true
		}
	}
	return false
}

// ForgetRunning makes checks that may have been decided before have no part in what runs, and no receipt.
func ForgetRunning(checks []Check) {
	for i := range checks {
		KeptOf(&checks[i]).Places, KeptOf(&checks[i]).Held, KeptOf(&checks[i]).Receipt = 0, nil, kernel.Receipt{}
	}
}

// QuotaName identifies the state of a key in a policy.
type QuotaName struct{ Policy, Key string }

func QuotaNameOf(c *Check) QuotaName { return QuotaName{c.Policy.rule.ID, c.Key.String()} }
