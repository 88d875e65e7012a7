package failover

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
)

// TestLastSeen_charge charges after an answer: an outage goes on from what Redis has charged.
func TestLastSeen_charge(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	f := New(openRedis(t, server, 10*time.Second), memory.New(), Options{})
	window := windowOfBothClocks(0)
	policies := []*limiter.Policy{storetest.NewPolicy(t, limiter.Settings{Name: "calendar", Algorithm: limiter.FixedWindow, Limit: 100, Calendar: "year", Location: time.UTC})}
	for _, algorithm := range limiter.Algorithms() {
		policies = append(policies, storetest.NewPolicy(t, limiter.Settings{Name: algorithm, Algorithm: algorithm, Limit: 100, Window: window}))
	}
	for _, charge := range []struct{ weight, units, left int64 }{{1, 99, 0}, {1, 5000, 0}, {20, 30, 50}, {0, 60, 40}} {
		for _, p := range policies {
			check := limiter.Check{Policy: p, Key: limiter.EncodeKey(fmt.Sprint(charge)), Weight: charge.weight, Peek: charge.weight == 0}
			decided := storetest.Decide(t, f, check)[0]
			decided.Weight, decided.Peek = charge.units, false
			chargeAll(f, []limiter.Check{decided}, limiter.SourceRedis)
			redistest.WaitFor(t, "the units are charged there and here", func() error {
				there, here := limiter.Check{Policy: p, Key: check.Key, Peek: true}, limiter.Check{Policy: p, Key: check.Key, Peek: true}
				err := f.shared.Peek(t.Context(), &there)
				f.PeekLocal(&here)
				if err != nil || there.Result.Remaining != charge.left || here.Result.Remaining != charge.left {
					return fmt.Errorf("%s, %+v: %d remain in Redis, %d here, error %w", p.Name(), charge, there.Result.Remaining, here.Result.Remaining, err)
				}
				return nil
			})
		}
	}
}
