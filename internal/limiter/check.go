package limiter

import (
	"fmt"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
)

// Check is one policy's part in a request: the client's quota and how many units of it to take.
type Check struct {
	// Policy is the limit to decide by.
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

	// Peek makes the check take no unit, whatever its weight, and pass. Its Result is the client's quota at the moment.
	Peek bool

	// Look makes the check pass only if its weight would, and take no unit. Its Result is that of a denial, or the client's
	// quota at the moment. A policy that counts running requests has no looks.
	Look bool

	// InFlight is how many units of looks of the quota may be in flight on this node at once: from their decision until
	// failover.Store.Settle, which may charge them. Another look is denied for a second, unless it is the only one.
	// Default: 0, a look that nothing is charged for afterwards. Only with Look. Only failover.Store reads it.
	InFlight int64

	// Credit is how many units that are taken a look leaves out, from 0 to its weight: those of requests that may still be
	// refunded. failover.Store sets it. Default: 0. Only with Look.
	Credit int64

	// Refundable requests a take that failover.Store.Settle can refund, all or a part. The policy must allow
	// refunds, see [Settings].Refunds. Default: what it takes stays.
	Refundable bool

	// Charges says that more than the weight may be charged after the answer, for which headers must not tell an end that is
	// too early. No store reads it.
	Charges bool

	// Unit is what clients are told that the policy counts. No store reads it.
	Unit Unit

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
	Owner        any            // the units' owner until the request ends: an [Awaited], a *redis.Run or what waits for its turn there; nil: nothing owns units
	RunningUnits int32          // units that the request has until it ends, see failover.Store.EndRunning
	Turn         int32          // the answer's place among those that the store gave at DecidedAt
	Late         kernel.Lateness
	Scaled       bool // a fraction of the policy's limits decided
}

// Unit is what a policy counts.
type Unit uint8

// The units.
const (
	Requests   Unit = iota // or what they weigh
	Bytes                  // of the contents of responses
	OtherUnits             // what only the site knows
)

// Joined returns what handlers count together of which each counts a unit.
func (u Unit) Joined(other Unit) Unit {
	if u != other {
		return OtherUnits
	}
	return u
}

// SameQuota reports whether two checks take from one quota.
func (c *Check) SameQuota(other *Check) bool {
	return c.Key == other.Key && (c.Policy == other.Policy || c.Policy.ID == other.Policy.ID)
}

// Unused returns the units of the quota that remain, with those that must stay for others.
func (c *Check) Unused() int64 { return c.Result.Remaining + c.State.Withheld }

// Units returns how many units the check asks for: its weight.
func Units(c *Check) int64 {
	switch {
	case c.Peek:
		return 0
	case c.Weight == 0:
		return 1
	}
	return c.Weight
}

// Takes reports whether the check takes its units if its request passes.
func (c *Check) Takes() bool { return !c.Peek && !c.Look }

// Taken returns how many units the check takes if its request passes.
func Taken(c *Check) int64 {
	if !c.Takes() {
		return 0
	}
	return Units(c)
}

// Reserve returns the units that must stay for others when the check passes, at most the capacity. It is
// the capacity, so that no weight passes, if a queue cannot hold that many units.
func Reserve(c *Check) int64 {
	if c.Reserve == 0 {
		return 0
	}
	return c.Policy.Params.Reserve(c.Reserve)
}

// NetReserve returns the units that must be left beyond the weight when the check passes: the reserve, less the credit of a
// look. It is below 0, down to minus the weight, if the credit is larger. A check that never passes has no credit.
func NetReserve(c *Check) int64 {
	reserve := Reserve(c)
	if c.Credit == 0 || NeverPasses(c) {
		return reserve
	}
	return reserve - c.Credit
}

// NeverPasses reports whether the check asks for more than there can be.
func NeverPasses(c *Check) bool {
	return !c.Peek && Units(c) > c.Policy.Params.Capacity-Reserve(c)
}

// Prepare makes the checks of a request ready for a decision: what an earlier decision has left in them is forgotten. An
// error says what is wrong with the checks, and leaves them as they are.
func Prepare(checks []Check) error {
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
		case c.Look && (c.Peek || c.Refundable || c.Policy.CountsRunning), c.Credit < 0, c.Credit > 0 && (!c.Look || c.Credit > Units(c)):
			return fmt.Errorf("%w: number %d has Look %v with Credit %d; a look takes no units and leaves out at most its weight",
				ErrInvalidCheck, i, c.Look, c.Credit)
		}
		for j := range i {
			if c.SameQuota(&checks[j]) {
				return fmt.Errorf("%w: numbers %d and %d take from the same quota; add their weights", ErrInvalidCheck, j, i)
			}
		}
	}
	for i := range checks {
		checks[i].State = CheckState{}
	}
	return nil
}

// ForgetDecision makes the checks as they were before their decision: without a part in what runs, and without a receipt.
func ForgetDecision(checks []Check) {
	for i := range checks {
		checks[i].State = CheckState{}
	}
}

// QuotaName identifies the state of a key in a policy.
type QuotaName struct{ Policy, Key string }

// QuotaNameOf returns the name of the state that a check counts in.
func QuotaNameOf(c *Check) QuotaName { return QuotaName{c.Policy.ID, c.Key.String()} }
