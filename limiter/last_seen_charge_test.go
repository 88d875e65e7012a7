package limiter

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestLastSeen_charge charges after an answer: an outage goes on from what Redis has charged.
func TestLastSeen_charge(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	f := NewFailover(openRedis(t, server, 10*time.Second), NewMemory(), FailoverOptions{})
	window := windowOfBothClocks(0)
	policies := []*Policy{mustPolicy(t, Settings{Name: "calendar", Algorithm: FixedWindow, Limit: 100, Calendar: "year", Location: time.UTC})}
	for _, algorithm := range Algorithms() {
		policies = append(policies, mustPolicy(t, Settings{Name: algorithm, Algorithm: algorithm, Limit: 100, Window: window}))
	}
	for _, charge := range []struct{ weight, units, left int64 }{{1, 99, 0}, {1, 5000, 0}, {20, 30, 50}, {0, 60, 40}} {
		for _, p := range policies {
			check := Check{Policy: p, Key: EncodeKey(fmt.Sprint(charge)), Weight: charge.weight, Peek: charge.weight == 0}
			decided := decide(t, f, check)[0]
			decided.Weight, decided.Peek = charge.units, false
			chargeAll(f, []Check{decided}, SourceRedis)
			redistest.WaitFor(t, "the units are charged there and here", func() error {
				there, here := Check{Policy: p, Key: check.Key, Peek: true}, Check{Policy: p, Key: check.Key, Peek: true}
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
