package failover

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
)

// TestFailover_Settle_concurrent has a thousand requests at once whose estimates are at least their
// costs. What all that pass cost together never exceeds the limit, and in the end just that is taken.
func TestFailover_Settle_concurrent(t *testing.T) {
	t.Parallel()
	const limit, requests, senders = 20_000, 1000, 100
	stores := failovers(t)
	for _, name := range []string{"redis", "memory"} {
		for _, algorithm := range limiter.Algorithms() {
			t.Run(name+"/"+algorithm, func(t *testing.T) {
				f := stores[name]
				p := storetest.NewPolicy(t, limiter.Settings{Name: "parallel-" + name + "-" + algorithm, Algorithm: algorithm, Limit: limit, Window: 90 * 24 * time.Hour})
				if err := p.AllowRefunds(); err != nil {
					t.Fatal(err)
				}
				var spent, passed atomic.Int64
				inParallel(senders, func(sender int) {
					random := rand.New(rand.NewPCG(uint64(sender), 2))
					for range requests / senders {
						estimate := 1 + random.Int64N(100)
						checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: estimate, Refundable: true}}
						source, err := f.Decide(t.Context(), checks)
						if err != nil {
							t.Error(err)
							return
						}
						if !limiter.Allowed(checks) {
							continue
						}
						cost := random.Int64N(estimate + 1)
						passed.Add(1)
						if got := spent.Add(cost); got > limit {
							t.Errorf("%d units were spent of %d", got, limit)
						}
						f.Settle(checks[0], cost, source)
					}
				})
				t.Logf("%d requests passed and cost %d units", passed.Load(), spent.Load())
				if passed.Load() < limit/100 {
					t.Errorf("%d requests passed", passed.Load())
				}
				if algorithm == limiter.FixedWindow || algorithm == limiter.SlidingWindowCounter {
					checkLeft(t, f, p, limit-spent.Load())
				}
			})
		}
	}
}
