package limiter

import (
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
)

// Check is one policy's part in a request: the client's quota and how many units of it to take.
type Check struct {
	// Policy is the rule to decide by.
	Policy *Policy

	// Key names the client's quota within the policy.
	Key EncodedKey

	// Weight is the units that the request takes; 0 is 1, a negative one an error. One above the
	// policy's capacity never passes.
	Weight int64

	// Reserve is the units that must stay for others: the check passes only if they remain after it. It takes the
	// weight alone. Default: 0. A negative one is an error; with more than [Policy.MostReserve] the check never
	// passes.
	Reserve int64

	// Peek makes the check take no unit, whatever its weight, and pass. Its Result is the quota as it
	// stands.
	Peek bool

	// Refundable requests a take that failover.Store.Settle can refund, all or a part. The policy must allow
	// refunds, see [Settings].Refunds. Default: what it takes stays.
	Refundable bool

	// Result is filled in by the store. It is undefined after an error.
	Result Result

	// Ticket is for the stores of this module.
	Ticket kernel.Ticket
}

// SameQuota reports whether two checks take from one quota.
func (c *Check) SameQuota(other *Check) bool {
	return c.Key == other.Key && (c.Policy == other.Policy || c.Policy.rule.ID == other.Policy.rule.ID)
}

// Unused returns the units of the quota that remain, with those that must stay for others.
func (c *Check) Unused() int64 { return c.Result.Remaining + kernel.Open(&c.Ticket).Withheld }

// MaxCharge is the most units that can be charged at once, 2^52.
const MaxCharge = kernel.MaxCharge
