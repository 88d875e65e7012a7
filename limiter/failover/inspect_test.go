package failover

import (
	"context"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
)

// TestRedis_Inspect reads the state of every algorithm back.
func TestRedis_Inspect(t *testing.T) {
	t.Parallel()
	r := openRedis(t, redistest.Shared(t), 10*time.Second)
	for _, algorithm := range limiter.Algorithms() {
		p := storetest.DayPolicy(t, "stored-"+algorithm, algorithm, 9)
		if stored, err := r.Inspect(context.Background(), p, limiter.EncodeKey("k")); err != nil || len(stored) != 0 {
			t.Errorf("%s: nothing is stored yet: %v, %v", algorithm, stored, err)
		}
		storetest.Decide(t, r, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 2})
		storetest.Decide(t, r, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 3})
		stored, err := r.Inspect(context.Background(), p, limiter.EncodeKey("k"))
		if err != nil || len(stored) != 1 || stored[0].Name != r.RedisKey(p, limiter.EncodeKey("k")) || stored[0].TTL <= 0 {
			t.Fatalf("%s: %+v, %v", algorithm, stored, err)
		}
		words := map[string]any{"units": int64(5), "units_after_first_entry": int64(3), "entries": int64(2)}
		found := false
		for word, want := range words {
			if got, described := stored[0].Value[word]; described {
				if found = true; got != want {
					t.Errorf("%s: %s is %v, want %v", algorithm, word, got, want)
				}
			}
		}
		if owed, described := stored[0].Value["units_owed"].(float64); described {
			found = owed > 4.99 && owed <= 5 // it drains
		}
		if !found {
			t.Errorf("%s: %v", algorithm, stored[0].Value)
		}
	}
}
