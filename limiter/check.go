package limiter

import (
	"context"
	"errors"
	"fmt"
)

// Allow decides a request that takes one unit of one policy. The key names the client's quota; any
// bytes. The request may pass if the result does. For an error see [Store].
func Allow(ctx context.Context, store Store, policy *Policy, key string) (Result, error) {
	checks := [1]Check{{Policy: policy, Key: EncodeKey(key)}}
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

// validate reports what is wrong with the checks of a request.
func validate(checks []Check) error {
	if len(checks) == 0 {
		return fmt.Errorf("%w: there is none; name at least one policy", ErrInvalidCheck)
	}
	for i := range checks {
		c := &checks[i]
		switch {
		case c.Policy == nil:
			return fmt.Errorf("%w: number %d has no Policy; make one by NewPolicy", ErrInvalidCheck, i)
		case c.Weight < 0:
			return fmt.Errorf("%w: number %d has Weight %d; use a number from 1, or Peek", ErrInvalidCheck, i, c.Weight)
		}
		for j := range checks[:i] {
			if c.sameQuota(&checks[j]) {
				return fmt.Errorf("%w: numbers %d and %d take from the same quota; add their weights", ErrInvalidCheck, j, i)
			}
		}
	}
	return nil
}

// sameQuota reports whether two checks take from one quota.
func (c *Check) sameQuota(other *Check) bool {
	return c.Key == other.Key && (c.Policy == other.Policy || c.Policy.id == other.Policy.id)
}
