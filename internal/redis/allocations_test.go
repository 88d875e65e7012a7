//go:build !race

package redis_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// These bounds are part of the product: what a decision may leave to the garbage collector. The
// race detector allocates on its own account.

func TestRedis_Decide_allocations(t *testing.T) {
	r := stores.Open(t, redistest.Shared(t))
	for _, algorithm := range limiter.Algorithms() {
		p := storetest.DayPolicy(t, "alloc-"+algorithm, algorithm, 1_000_000)
		const batch = 32
		keys := make([]string, batch)
		for i := range keys {
			keys[i] = fmt.Sprint("client-", i)
		}
		calls := make([]*redis.Call, batch)
		allocs := testing.AllocsPerRun(100, func() {
			for i := range calls {
				calls[i] = redis.NewCall(redis.OpTake, []limiter.Check{{Policy: p, Key: limiter.EncodeKey(keys[i]), Weight: 1}})
				calls[i].MarkSent()
			}
			r.Send(context.Background(), r.Topology.AnyNode, calls)
			for _, c := range calls {
				if c.Err != nil {
					t.Fatal(c.Err)
				}
				c.Recycle()
			}
		})
		if perDecision := allocs / batch; perDecision > 1 {
			t.Errorf("%s: %.2f allocations per decision in a batch of %d", algorithm, perDecision, batch)
		} else {
			t.Logf("%s: %.2f allocations per decision in a batch of %d", algorithm, perDecision, batch)
		}
	}
}
