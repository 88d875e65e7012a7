package simulate

import (
	"context"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Remaining returns the units that remain of a policy for a key, at the time of the last request. The
// policy must be one of [Simulation.Policies].
func (s *Simulation) Remaining(policy, key string) int64 {
	check := limiter.Check{Policy: s.rules[s.indices[policy]].Policy, Key: limiter.AsEncoded(key), Peek: true}
	_, _ = s.store.Peek(context.Background(), &check) // the in-process store never fails
	return check.Result.Remaining
}
