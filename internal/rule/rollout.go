package rule

import (
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Rollout selects the keys that a rule is enforced for; for other keys the rule is a dry run. A larger percentage selects
// all keys of a smaller one. The choice depends on the policy's name and the key alone, so that all nodes choose the same
// keys. It is made by the key of the template, also if keys are hashed in Redis.
type Rollout struct {
	fraction Fraction
	seed     uint64 // a hash of the policy's name
}

// ParseRollout reads the option enforce of a policy, a percentage; nil for all keys.
func ParseRollout(policy string, percent *float64) (*Rollout, error) {
	if percent == nil {
		return nil, nil //nolint:nilnil // no option, no selection
	}
	fraction, err := ParseFraction(*percent)
	if err != nil {
		return nil, fmt.Errorf("enforce %s: %w", percentText(*percent), err)
	}
	if fraction == whole {
		return nil, nil //nolint:nilnil // all keys, as without the option
	}
	return &Rollout{fraction: fraction, seed: xxhash.Sum64String(policy)}, nil
}

// Fraction returns the fraction of the keys that are selected.
func (r *Rollout) Fraction() Fraction { return r.fraction }

// String returns the fraction as in a Caddyfile; empty for nil.
func (r *Rollout) String() string {
	if r == nil {
		return ""
	}
	return r.fraction.String()
}

// selects reports whether the rule is enforced for a key.
func (r *Rollout) selects(key limiter.EncodedKey) bool {
	if r == nil {
		return true
	}
	var hash xxhash.Digest
	hash.ResetWithSeed(r.seed)
	_, _ = hash.WriteString(key.String())
	return hash.Sum64()%uint64(whole) < uint64(r.fraction)
}
