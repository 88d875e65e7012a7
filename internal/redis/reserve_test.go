package redis_test

import (
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// TestStores_reserve_with_others has a request of two policies, of which one is denied for the sake of others.
// Neither is charged.
func TestStores_reserve_with_others(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	cluster, _ := stores.OpenCluster(t)
	for _, algorithm := range limiter.Algorithms() {
		small, large := storetest.DayPolicy(t, "small-"+algorithm, algorithm, 4), storetest.DayPolicy(t, "large-"+algorithm, algorithm, 100)
		byName := map[string]limiter.Store{"memory": memory.New(), "redis": stores.Open(t, server), "cluster": cluster}
		for name, s := range byName {
			for i, passes := range []bool{true, true, false, false} {
				checks := storetest.Decide(t, s, storetest.Leaving(small, 1, 2), limiter.Check{Policy: large, Key: limiter.EncodeKey("another"), Reserve: 50})
				assert.ErrorIf(t, limiter.Allowed(checks) != passes || checks[0].Result.ForOthers == passes,
					"%s/%s: lesser request %d: %+v", name, algorithm, i, checks)
			}
			checks := storetest.Decide(t, s, storetest.Leaving(small, 2, 0), limiter.Check{Policy: large, Key: limiter.EncodeKey("another")})
			assert.ErrorIf(t, !limiter.Allowed(checks) || checks[0].Result.Remaining != 0 || checks[1].Result.Remaining != 97,
				"%s/%s: others: %+v", name, algorithm, checks)
		}
	}
}
