package redisratelimit

import (
	"context"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

// This file has how commands go by whether Redis decides. That asks redis.Store, for all of them and for the overrides.

// decides returns whether any part of Redis decides by the configured policies now, and why another part does not. Without
// Redis all is well.
func (a *App) decides(ctx context.Context, stores *storepool.Stores) (some bool, err error) {
	return stores.ProbeEach(ctx, a.policies())
}

// policies are those of the configuration.
func (a *App) policies() []*limiter.Policy {
	policies := make([]*limiter.Policy, 0, len(a.registered))
	for _, registered := range a.registered {
		policies = append(policies, registered.policy)
	}
	return policies
}

// banned lists the banned of the policy of that name, or of all policies. Where no part of Redis decides there is none:
// only Redis has those of all nodes.
func (a *App) banned(ctx context.Context, stores *storepool.Stores, policy string) (list []limiter.Banned, complete bool, err error) {
	some, undecided := a.decides(ctx, stores)
	if some {
		list, complete, err = stores.Banned(ctx, policy)
	}
	if err == nil {
		err = undecided
	}
	return list, complete && err == nil, err
}

// holdsHere says that one node alone does what was asked, and why.
func holdsHere(report *adminapi.OverrideReport, reason error) {
	report.NodeOnly = true
	addHint(report, nodeOnlyHint(reason))
}

// nodeOnlyHint is the hint of what one node does alone, for the reason why Redis does not.
func nodeOnlyHint(reason error) string {
	what := "redis is away"
	if redis.Answered(reason) {
		what = "redis refuses (" + adminapi.UnavailableText(reason) + ")"
	}
	return what + ": this holds on this node alone, until redis decides again; repeat it on other nodes, and then once more"
}
