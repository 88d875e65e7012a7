package failover

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// BenchmarkCache_Deny repeats remembered denials of so many clients in turn.
func BenchmarkCache_Deny(b *testing.B) {
	policy := assert.NoError(limiter.NewPolicy(limiter.Settings{Name: "p", Limit: 1, Window: time.Hour}))(b)
	for _, clients := range []int{1, 300, 3000} {
		b.Run(fmt.Sprint("clients=", clients), func(b *testing.B) {
			cache, now := newCache(time.Second), clock.Now()
			checks := make([]limiter.Check, clients)
			for i := range checks {
				key := limiter.EncodeKey(fmt.Sprint("203.0.113.", i))
				checks[i] = limiter.Check{Policy: policy, Key: key, Result: limiter.Result{RetryAfter: time.Hour}}
			}
			cache.learn(checks, now)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				check := checks[i%clients : i%clients+1]
				if !cache.deny(check, now).denies {
					b.Fatal("a denial is not remembered")
				}
			}
		})
	}
}
