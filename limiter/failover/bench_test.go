package failover

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis/health"
)

// These benchmarks measure what a decision takes: time, allocations and calls of Redis. What a state takes, and
// comparisons with other limiters, are in bench/.

// benchKeys returns clients' keys of 13 bytes, so that the Redis key "rl:{…}:default:c1d" has 30.
func benchKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("203.%03d.%d", i/100_000%1000, 10_000+i%100_000)[:13]
	}
	return keys
}

// benchPolicy is far from its limit for as long as a benchmark runs.
func benchPolicy(b *testing.B, algorithm string) *limiter.Policy {
	b.Helper()
	s := limiter.Settings{Name: "default", Algorithm: algorithm, Limit: 1_000_000, Window: time.Hour}
	if a := kernel.Named(algorithm); a.MaxLimit > 0 {
		s.Limit = min(s.Limit, a.MaxLimit)
	}
	return storetest.NewPolicy(b, s)
}

func benchRedis(b *testing.B, server *redistest.Server) *redis.Store {
	b.Helper()
	return newTestRedis(b, server, 10*time.Second, limiter.KeyFormat{Prefix: "rl"})
}

// takeMany spreads n decisions, client by client, over callers that each wait for their answers.
func takeMany(b *testing.B, s limiter.Store, p *limiter.Policy, keys []string, callers, n int) {
	b.Helper()
	var taken atomic.Int64
	inParallel(callers, func(_ int) {
		checks := make([]limiter.Check, 1)
		for i := taken.Add(1); i <= int64(n); i = taken.Add(1) {
			checks[0] = limiter.Check{Policy: p, Key: limiter.EncodeKey(keys[int(i)%len(keys)]), Weight: 1}
			if _, err := s.Decide(context.Background(), checks); err != nil || !checks[0].Result.Passes() {
				b.Error(checks, err)
				return
			}
		}
	})
}

// BenchmarkTake measures one decision, by one caller and by many, and counts the scripts that Redis runs for it.
func BenchmarkTake(b *testing.B) {
	keys, server := benchKeys(5000), redistest.Start(b)
	client, store := server.Client(b), benchRedis(b, server)
	for _, algorithm := range limiter.Algorithms() {
		p := benchPolicy(b, algorithm)
		b.Run("store=memory/algorithm="+algorithm, func(b *testing.B) {
			b.ReportAllocs()
			takeMany(b, memory.New(), p, keys, 1, b.N)
		})
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("store=redis/algorithm=%s/callers=%d", algorithm, callers), func(b *testing.B) {
				noError(b, client.ConfigResetStat(b.Context()).Err())
				b.ReportAllocs()
				b.ResetTimer()
				takeMany(b, store, p, keys, callers, b.N)
				scripts := infoSum(b, client, "commandstats", `cmdstat_evalsha:calls=(\d+)`)
				b.ReportMetric(scripts/float64(b.N), "scripts/op")
			})
		}
	}
}

// BenchmarkBreaker measures what the breaker costs a request that Redis decides.
func BenchmarkBreaker(b *testing.B) {
	breaker := &health.Breaker{Now: clock.Now}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if !breaker.Open() {
				breaker.Success(1)
			}
		}
	})
}
