package failover

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis"
)

// offsetOf returns the offset of a store after a request.
func offsetOf(t *testing.T, s limiter.Store, r *redis.Store) time.Duration {
	t.Helper()
	storetest.Decide(t, s, limiter.Check{Policy: storetest.DayPolicy(t, "offset", limiter.GCRA, 1_000), Key: limiter.EncodeKey("k")})
	offset, known := r.Offset(0)
	if !known {
		t.Error("no offset after a decision")
	}
	return offset
}

func TestRedis_offset(t *testing.T) {
	for _, ahead := range []time.Duration{0, -3 * time.Hour} {
		r := openRedis(t, redistest.StartAt(t, ahead), time.Second)
		redistest.WaitFor(t, "the offset is known", func() error {
			if got := offsetOf(t, r, r); (got - ahead).Abs() > 50*time.Millisecond {
				return fmt.Errorf("an offset of %v; want %v", got, ahead)
			}
			return nil
		})
	}
}

// TestRedis_offset_set sets Redis's clock between requests.
func TestRedis_offset_set(t *testing.T) {
	s := redisStore(t, redistest.Shared(t))
	for _, ahead := range []time.Duration{0, time.Hour, -2 * time.Hour, 10 * time.Second} {
		s.SetClock(time.Now().Add(ahead).UnixMicro())
		if got := offsetOf(t, s, s.f.shared); (got - ahead).Abs() > 2*time.Second {
			t.Errorf("an offset of %v right after the clock was set; want %v", got, ahead)
		}
	}
}
