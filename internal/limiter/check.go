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

	// State is what the stores keep of the check.
	State CheckState
}

// CheckState is what the stores keep of a check from its decision until its request ends.
type CheckState struct {
	DecidedAt    int64          // the store's time at its answer, in microseconds since the Unix epoch
	Receipt      kernel.Receipt // of a take that passed and can be refunded
	Withheld     int64          // units that remain for others, and are not in the result
	Owner        any            // the units' owner until the request ends: an [Awaited], or a *redis.Run; nil: none
	RunningUnits int32          // units that the request has until it ends, see failover.Store.EndRunning
	Turn         int32          // the answer's place among those that the store gave at DecidedAt
	Late         kernel.Lateness
}

// SameQuota reports whether two checks take from one quota.
func (c *Check) SameQuota(other *Check) bool {
	return c.Key == other.Key && (c.Policy == other.Policy || c.Policy.ID == other.Policy.ID)
}

// Unused returns the units of the quota that remain, with those that must stay for others.
func (c *Check) Unused() int64 { return c.Result.Remaining + c.State.Withheld }

// MaxCharge is the most units that can be charged at once, 2^52.
const MaxCharge = kernel.MaxCharge
