package redis_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
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

// takeMany spreads n decisions, client by client, over callers that each wait for their answers.
func takeMany(b *testing.B, s limiter.Store, p *limiter.Policy, keys []string, callers, n int) {
	b.Helper()
	var taken atomic.Int64
	storetest.InParallel(callers, func(_ int) {
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
	client, store := server.Client(b), stores.Open(b, server)
	for _, algorithm := range limiter.Algorithms() {
		p := benchPolicy(b, algorithm)
		b.Run("store=memory/algorithm="+algorithm, func(b *testing.B) {
			b.ReportAllocs()
			takeMany(b, memory.New(), p, keys, 1, b.N)
		})
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("store=redis/algorithm=%s/callers=%d", algorithm, callers), func(b *testing.B) {
				assert.Must(b, client.ConfigResetStat(b.Context()).Err())
				b.ReportAllocs()
				b.ResetTimer()
				takeMany(b, store, p, keys, callers, b.N)
				scripts := redistest.InfoSum(b, client, "commandstats", `cmdstat_evalsha:calls=(\d+)`)
				b.ReportMetric(scripts/float64(b.N), "scripts/op")
			})
		}
	}
}

// BenchmarkBreaker measures what the breaker costs a request that Redis decides.
func BenchmarkBreaker(b *testing.B) {
	breaker := &redis.Breaker{Now: clock.Now}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if !breaker.Open() {
				breaker.Success(1)
			}
		}
	})
}

// BenchmarkScript measures the processor time of Redis for a decision of a batch, by the script of takes alone and
// by that of everything. An iteration is a round of both, and the numbers are the least of all rounds, because other
// processes only add to them.
func BenchmarkScript(b *testing.B) {
	keys := benchKeys(5000)
	server := redistest.Start(b)
	client, random := server.Client(b), rand.New(rand.NewPCG(1, 2))
	byScript := map[string]*redis.Store{"takes": stores.Open(b, server), "batch": stores.Open(b, server)}
	byScript["batch"].Scripts.Always = true
	for _, algorithm := range limiter.Algorithms() {
		p := benchPolicy(b, algorithm)
		takeMany(b, byScript["takes"], p, keys, 64, len(keys))
		for _, size := range []int{1, 10, 32} {
			b.Run(fmt.Sprintf("algorithm=%s/batch=%d", algorithm, size), func(b *testing.B) {
				least := map[string]float64{}
				for b.Loop() {
					for name, r := range byScript {
						each := sendTakes(b, client, r, p, keys, size, random)
						if least[name] == 0 || each < least[name] {
							least[name] = each
						}
					}
				}
				b.ReportMetric(0, "ns/op")
				for name, each := range least {
					b.ReportMetric(each, name+"-µs/decision")
				}
			})
		}
	}
}

// sendTakes sends batches of takes and returns the microseconds of Redis's processor time for each of them.
func sendTakes(b *testing.B, client *goredis.Client, r *redis.Store, p *limiter.Policy, keys []string, size int, random *rand.Rand) float64 {
	b.Helper()
	batches := 2000/size + 100
	calls := make([]*redis.Call, size)
	before := processorTime(b, client)
	for range batches {
		for i := range calls {
			calls[i] = redis.NewCall(redis.OpTake, []limiter.Check{{Policy: p, Key: limiter.EncodeKey(keys[random.IntN(len(keys))])}})
		}
		r.Send(context.Background(), r.Topology.AnyNode, calls)
		for _, c := range calls {
			if c.Err != nil || !c.Checks[0].Result.Passes() {
				b.Fatalf("%+v, %v", c.Checks[0].Result, c.Err)
			}
			c.Recycle()
		}
	}
	return (processorTime(b, client) - before) * 1e6 / float64(batches*size)
}

// processorTime returns the seconds that Redis's main thread has used.
func processorTime(b *testing.B, client *goredis.Client) float64 {
	b.Helper()
	seconds := redistest.InfoSum(b, client, "cpu", `used_cpu_(?:sys|user)_main_thread:([\d.]+)`)
	if seconds == 0 {
		b.Skip("this Redis does not report the time of its main thread")
	}
	return seconds
}
