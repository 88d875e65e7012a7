package limiter

import (
	"fmt"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
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

	// Reserve is the units that must stay for others: the check passes only if a weight of so much more
	// would. It takes the weight alone. Default: 0. A negative one is an error; with more than
	// [Policy.MostReserve] the check never passes.
	Reserve int64

	// Peek makes the check take no unit, whatever its weight, and pass. Its Result is the quota as it
	// stands.
	Peek bool

	// Refundable requests a take that [Failover.Settle] can refund, all or a part. The policy must allow refunds,
	// see [Policy.AllowRefunds]. Default: what it takes stays.
	Refundable bool

	// Result is filled in by the store. It is undefined after an error.
	Result Result

	// Ticket is for the stores of this module.
	Ticket kernel.Ticket
}

// keptOf returns what the stores keep of a check.
func keptOf(c *Check) *kernel.Kept { return kernel.Open(&c.Ticket) }

// units returns how many units the check takes.
func unitsOf(c *Check) int64 {
	switch {
	case c.Peek:
		return 0
	case c.Weight == 0:
		return 1
	}
	return c.Weight
}

// settleTo notes what settling the check to a cost changes, and reports whether it changes anything. Without Refundable
// what it took stays, and is counted for bans already.
func settleTo(c *Check, cost int64) bool {
	taken := unitsOf(c)
	cost = min(max(0, cost), MaxCharge)
	if !c.Refundable {
		cost = max(cost, taken)
	}
	keptOf(c).Change, keptOf(c).Stays = cost-taken, 0
	if c.Policy.rule.Ban != nil && c.Policy.rule.Refunds.Load() {
		if keptOf(c).Stays = cost; !c.Refundable {
			keptOf(c).Stays = keptOf(c).Change
		}
	}
	return keptOf(c).Change != 0 || keptOf(c).Stays != 0
}

// validate reports what is wrong with the checks of a request.
func validate(checks []Check) error {
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
		numbers := make(map[quotaName]int, len(checks))
		for i := range checks {
			name := quotaNameOf(&checks[i])
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

// SameQuota reports whether two checks take from one quota.
func (c *Check) SameQuota(other *Check) bool {
	return c.Key == other.Key && (c.Policy == other.Policy || c.Policy.rule.ID == other.Policy.rule.ID)
}

// refundable reports whether a check needs a take that can be refunded.
func refundable(checks []Check) bool {
	for i := range checks {
		if checks[i].Refundable {
			return true
		}
	}
	return false
}

// reserve returns the units that must stay for others when the check passes, at most the capacity. It is
// the capacity, so that no weight passes, where a queue cannot hold so much.
func reserveOf(c *Check) int64 {
	if c.Reserve == 0 {
		return 0
	}
	return c.Policy.rule.Params.Reserve(c.Reserve)
}

// neverPasses reports whether the check asks for more than there can be.
func neverPasses(c *Check) bool {
	return !c.Peek && unitsOf(c) > c.Policy.rule.Params.Capacity-reserveOf(c)
}

// Unused returns the units of the quota that remain, with those that must stay for others.
func (c *Check) Unused() int64 { return c.Result.Remaining + kernel.Open(&c.Ticket).Withheld }

// answeredBy takes over the answer to another check of the same units.
func copyAnswer(c *Check, other *Check) {
	c.Result, keptOf(c).Withheld = other.Result, keptOf(other).Withheld
}

// withhold completes the result of a check with a reserve. Kernels and scripts decide by a reserve, and answer
// with all that remains: here the units for others are hidden, and a denial for their sake alone is marked.
func withhold(c *Check) {
	keptOf(c).Withheld = 0
	if c.Reserve != 0 {
		withholdReserve(c)
	}
}

func withholdReserve(c *Check) {
	r, shown := &c.Result, int64(0)
	if r.Remaining < 0 {
		r.Remaining = kernel.BeyondQueue(r.Remaining)
	} else {
		shown = max(0, r.Remaining-reserveOf(c))
	}
	r.ForOthers = !r.Passes() && !r.Banned && r.Remaining >= unitsOf(c)
	keptOf(c).Withheld, r.Remaining = r.Remaining-shown, shown
}

// answer writes a verdict at an instant in microseconds to the check's result.
func setAnswer(c *Check, v kernel.Verdict, now int64) {
	t := &c.Policy.rule.Params
	offset := now % t.Tick
	keptOf(c).AsOf, keptOf(c).Turn = now, 0
	c.Result = Result{
		Remaining:  v.Remaining,
		RetryAfter: duration(t.Micros(v.Wait, offset)),
		ResetAfter: duration(t.Micros(v.Reset, offset)),
		Delay:      duration(t.Micros(v.Delay, offset)),
	}
	withhold(c)
}

// ban adds a ban of the given microseconds to the result of a check that is not above the capacity.
func setBan(c *Check, left int64, begins bool) {
	r := &c.Result
	r.Banned, r.BanBegins, r.BanLeft = true, begins, duration(left)
	r.Remaining, r.Delay, r.ForOthers = 0, 0, false
	r.ResetAfter = max(r.ResetAfter, r.BanLeft)
	if !c.Peek {
		r.RetryAfter = max(r.RetryAfter, r.BanLeft)
	}
}

// forgetRunning makes checks that may have been decided before have no part in what runs, and no receipt.
func forgetRunning(checks []Check) {
	for i := range checks {
		keptOf(&checks[i]).Places, keptOf(&checks[i]).Held, keptOf(&checks[i]).Receipt = 0, nil, kernel.Receipt{}
	}
}

// countsRunning reports whether one of the checks counts running requests.
func countsRunning(checks []Check) bool {
	for i := range checks {
		if checks[i].Policy.CountsRunning() {
			return true
		}
	}
	return false
}

// quotaName identifies the state of a key in a policy.
type quotaName struct{ policy, key string }

func quotaNameOf(c *Check) quotaName { return quotaName{c.Policy.rule.ID, c.Key.text} }

// awaited is a check's units that may be refunded, for those who wait for that.
type awaited interface {
	// begin notes that the check has passed and took so many units, of a quota that is whole again after a time.
	begin(units int64, whole time.Duration)

	// end notes that the units were refunded, all or some, or stay.
	end(refunded bool)
}

// beginReservation counts units of a check that has passed for those who wait for a refund of them.
func beginReservation(c *Check) {
	if r, ok := keptOf(c).Held.(awaited); ok {
		r.begin(unitsOf(c), c.Result.ResetAfter)
	}
}

// endReservation ends that.
func endReservation(c *Check, refunded bool) {
	if r, ok := keptOf(c).Held.(awaited); ok {
		r.end(refunded)
	}
}

// evaluate returns the kernel's verdict on a check at an instant in microseconds.
func evaluate(s kernel.State, now int64, c *Check) kernel.Verdict {
	t := &c.Policy.rule.Params
	weight, reserve := unitsOf(c), reserveOf(c)
	if weight > 0 && weight > t.Capacity-reserve {
		v := c.Policy.rule.Algorithm.Kernel.Decide(s, now/t.Tick, t, 0, reserve)
		v.Wait = -1
		return v
	}
	return c.Policy.rule.Algorithm.Kernel.Decide(s, now/t.Tick, t, weight, reserve)
}

// peekVerdict returns the verdict on a check that a ban denies: it takes nothing.
func peekVerdict(s kernel.State, now int64, c *Check, v kernel.Verdict) kernel.Verdict {
	if v.Wait == 0 {
		peek := *c
		peek.Peek = true
		return evaluate(s, now, &peek)
	}
	return v
}

// MaxCharge is the most units that can be charged at once, 2^52.
const MaxCharge = kernel.MaxCharge
