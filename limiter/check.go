package limiter

import (
	"context"
	"errors"
	"fmt"
)

// Allow decides a request that takes one unit of one policy. The key names the client's quota; any
// bytes. The request may pass if the result does. For an error see [Store]. A policy with a MaxConcurrent
// is one, which wraps [ErrInvalidCheck]: its requests are ended by [Failover.EndRunning], which needs the
// checks of [Store.Decide].
func Allow(ctx context.Context, store Store, policy *Policy, key string) (Result, error) {
	checks := [1]Check{{Policy: policy, Key: EncodeKey(key)}}
	if err := validate(checks[:]); err != nil {
		return Result{}, err
	}
	if policy.CountsRunning() {
		return Result{}, fmt.Errorf("%w: Allow cannot end a request of %s: use Decide and EndRunning", ErrInvalidCheck, policy.Name())
	}
	_, err := store.Decide(ctx, checks[:])
	return checks[0].Result, err
}

// Peek returns a client's quota of a policy as it stands, and takes nothing. For an error see [Store].
func Peek(ctx context.Context, store Store, policy *Policy, key string) (Result, error) {
	checks := [1]Check{{Policy: policy, Key: EncodeKey(key), Peek: true}}
	_, err := store.Decide(ctx, checks[:])
	return checks[0].Result, err
}

// ErrInvalidCheck is wrapped by the errors of checks that no store can decide.
var ErrInvalidCheck = errors.New("invalid check")

// units returns how many units the check takes.
func (c *Check) units() int64 {
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
func (c *Check) settleTo(cost int64) bool {
	taken := c.units()
	cost = min(max(0, cost), MaxCharge)
	if !c.Refundable {
		cost = max(cost, taken)
	}
	c.change, c.stays = cost-taken, 0
	if c.Policy.ban != nil && c.Policy.refunds.Load() {
		if c.stays = cost; !c.Refundable {
			c.stays = c.change
		}
	}
	return c.change != 0 || c.stays != 0
}

// validate reports what is wrong with the checks of a request.
func validate(checks []Check) error {
	if len(checks) == 0 {
		return fmt.Errorf("%w: there is none; name at least one policy", ErrInvalidCheck)
	}
	for i := range checks {
		c := &checks[i]
		switch {
		case c.Policy == nil || c.Policy.algorithm == nil:
			return fmt.Errorf("%w: number %d has no Policy; make one by NewPolicy", ErrInvalidCheck, i)
		case c.Policy.params.capacity == 0:
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
	return c.Key == other.Key && (c.Policy == other.Policy || c.Policy.id == other.Policy.id)
}
