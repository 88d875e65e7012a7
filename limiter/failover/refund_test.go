package failover

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis"
)

// failovers returns stores whose requests are decided on Redis, in process, in an outage, and in an
// outage by half of the limit.
func failovers(t *testing.T) map[string]*Store {
	t.Helper()
	server := redistest.Shared(t)
	down := openRedis(t, server, time.Second)
	keepOpen(down)
	return map[string]*Store{
		"redis":    New(openRedis(t, server, 10*time.Second), memory.New(), Options{DenyAge: time.Second}),
		"memory":   New(nil, memory.New(), Options{}),
		"fallback": New(down, memory.New(), Options{}),
		"part":     New(down, memory.New(), Options{LocalFraction: 0.5}),
	}
}

// keepOpen opens the breaker of a store for good.
func keepOpen(r *redis.Store) {
	r.Topology.AnyNode.Breaker.Failure(&limiter.UndecidedError{Kind: "refused", Err: errors.New("down")})
}

// TestFailover_Refund has every algorithm take and refund, on Redis, in process, in an outage,
// and with a fraction of the limit.
func TestFailover_Refund(t *testing.T) {
	t.Parallel()
	for name, f := range failovers(t) {
		for _, algorithm := range limiter.Algorithms() {
			t.Run(name+"/"+algorithm, func(t *testing.T) {
				capacity := int64(4)
				if name == "part" {
					capacity = 2
				}
				p := storetest.DayPolicy(t, "give-"+name+"-"+algorithm, algorithm, 4)
				if err := p.AllowRefunds(); err != nil {
					t.Fatal(err)
				}
				take := func() ([]limiter.Check, limiter.Source) {
					checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1, Refundable: true}}
					source, err := f.Decide(context.Background(), checks)
					noError(t, err)
					return checks, source
				}
				var last []limiter.Check
				var source limiter.Source
				for range capacity {
					if last, source = take(); !limiter.Allowed(last) {
						t.Fatalf("denied: %+v", last)
					}
				}
				if denied, _ := take(); limiter.Allowed(denied) {
					t.Fatalf("allowed: %+v", denied)
				}
				refundAll(f, last, source)
				redistest.WaitFor(t, "a unit is there again, at once", func() error {
					if again, _ := take(); !limiter.Allowed(again) {
						return fmt.Errorf("%+v", again)
					}
					return nil
				})
				if denied, _ := take(); limiter.Allowed(denied) {
					t.Errorf("more was refunded than was taken: %+v", denied)
				}
			})
		}
	}
}
