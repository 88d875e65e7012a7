package failover

import (
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis"
)

// TestFailover_scaleDown has a quarter of a limit of 8 enforced in an outage.
func TestFailover_scaleDown(t *testing.T) {
	t.Parallel()
	for _, algorithm := range limiter.Algorithms() {
		p := storetest.DayPolicy(t, "part", algorithm, 8)
		for weight, want := range map[int64]bool{1: true, 2: true, 8: true, 9: false} {
			f := New(new(redis.Store), memory.New(), Options{LocalFraction: 0.25, ForgiveOutages: true})
			checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: weight, Peek: weight == 0}}
			source, err := f.Fallback(FailLocal, checks, limiter.ErrAlreadyTimedOut)
			if err != nil || source != limiter.SourceFallback || checks[0].Result.Passes() != want {
				t.Errorf("%s: weight %d: %s, %+v, %v; want it to pass: %v", algorithm, weight, source, checks[0].Result, err, want)
			}
			if !want && checks[0].Result.RetryAfter != limiter.Never {
				t.Errorf("%s: weight %d may come back after %v, and never can", algorithm, weight, checks[0].Result.RetryAfter)
			}
		}
	}
}

func TestPolicy_scaled(t *testing.T) {
	t.Parallel()
	for _, algorithm := range limiter.Algorithms() {
		p := storetest.DayPolicy(t, "whole", algorithm, 10)
		for part, want := range map[float64]int64{0.5: 5, 0.34: 3, 0.01: 1} {
			m := memory.New()
			admitted := int64(0)
			for range 20 {
				if limiter.Allowed(storetest.Decide(t, m, limiter.Check{Policy: scaled(p, part), Key: limiter.EncodeKey("k"), Weight: 1})) {
					admitted++
				}
			}
			if admitted != want {
				t.Errorf("%s: a part of %v of 10 admitted %d, want %d", algorithm, part, admitted, want)
			}
		}
	}
}
