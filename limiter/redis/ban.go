package redis

import (
	"context"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// offend counts the denials of a request whose checks lie in several slots of a Cluster and were only
// peeked at, unless one of its clients is banned already. One that is banned by it gets the ban as its
// answer.
func (r *Store) offend(ctx context.Context, checks []limiter.Check, deadline time.Time) error {
	var denied []limiter.Check
	var indices []int
	for i := range checks {
		c := &checks[i]
		if c.Result.Banned {
			return nil
		}
		if c.Policy.Rule().Ban != nil && c.Result.RetryAfter > 0 && !c.Result.ForOthers {
			denied, indices = append(denied, *c), append(indices, i)
		}
	}
	if len(denied) == 0 {
		return nil
	}
	groups := r.GroupBySlot(denied)
	err := r.runGroups(ctx, groups, limiter.OpOffend, deadline)
	for _, g := range groups {
		for i, at := range g.indices {
			if g.decided && !g.checks[i].Result.Passes() {
				limiter.CopyAnswer(&checks[indices[at]], &g.checks[i])
			}
		}
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return nil // a denial stays one, counted or not
}
