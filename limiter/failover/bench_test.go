package failover

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis/health"
)

// These benchmarks measure what a decision takes: time, allocations, calls of Redis, and bytes of
// memory per state. Comparisons with other limiters are in bench/.

// benchKey makes a client's key of 13 bytes, so that the Redis key "rl:{…}:default:c1d" has 30.
func benchKey(i int) string { return fmt.Sprintf("203.%03d.%d", i/100_000%1000, 10_000+i%100_000)[:13] }

func benchKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = benchKey(i)
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
			if _, err := s.Decide(context.Background(), checks); err != nil {
				b.Error(err)
				return
			}
			if !checks[0].Result.Passes() {
				b.Error("a request was denied")
				return
			}
		}
	})
}

// measureTakes is the body of a benchmark of takeMany.
func measureTakes(b *testing.B, s limiter.Store, p *limiter.Policy, keys []string, callers int) {
	b.Helper()
	b.ReportAllocs()
	b.ResetTimer()
	takeMany(b, s, p, keys, callers, b.N)
}

// reportCalls counts the calls of Redis that a benchmark makes: those of the client, and all,
// those of scripts included. The function that it returns reports them per decision.
func reportCalls(b *testing.B, client *goredis.Client) (report func()) {
	b.Helper()
	noError(b, client.ConfigResetStat(context.Background()).Err())
	return func() {
		var scripts, all int
		stats := client.Info(context.Background(), "commandstats").Val()
		for _, call := range regexp.MustCompile(`cmdstat_([a-z]+):calls=(\d+)`).FindAllStringSubmatch(stats, -1) {
			n, _ := strconv.Atoi(call[2]) // the pattern has digits only
			switch call[1] {
			case "config", "info":
				continue
			case "eval", "evalsha":
				scripts += n
			}
			all += n
		}
		b.ReportMetric(float64(scripts)/float64(b.N), "scripts/op")
		b.ReportMetric(float64(all)/float64(b.N), "calls/op")
	}
}

// BenchmarkTake measures one decision, by one caller and by many.
func BenchmarkTake(b *testing.B) {
	keys := benchKeys(5000)
	server := redistest.Shared(b)
	client, store := server.Client(b), benchRedis(b, server)
	for _, algorithm := range limiter.Algorithms() {
		b.Run("store=memory/algorithm="+algorithm, func(b *testing.B) {
			measureTakes(b, memory.New(), benchPolicy(b, algorithm), keys, 1)
		})
	}
	for _, callers := range []int{1, 64} {
		for _, algorithm := range limiter.Algorithms() {
			p := benchPolicy(b, algorithm)
			b.Run(fmt.Sprintf("store=redis/algorithm=%s/callers=%d", algorithm, callers), func(b *testing.B) {
				report := reportCalls(b, client)
				measureTakes(b, store, p, keys, callers)
				report()
			})
		}
	}
}

// BenchmarkTakeCallers measures how a decision gets cheaper with more callers in a batch.
func BenchmarkTakeCallers(b *testing.B) {
	keys := benchKeys(5000)
	server := redistest.Shared(b)
	client, store := server.Client(b), benchRedis(b, server)
	p := benchPolicy(b, limiter.DefaultAlgorithm)
	for callers := 1; callers <= 512; callers *= 2 {
		b.Run(fmt.Sprintf("store=redis/callers=%d", callers), func(b *testing.B) {
			report := reportCalls(b, client)
			measureTakes(b, store, p, keys, callers)
			report()
		})
		b.Run(fmt.Sprintf("store=memory/callers=%d", callers), func(b *testing.B) {
			measureTakes(b, memory.New(), p, keys, callers)
		})
	}
}

// BenchmarkTakeKeys measures how a decision's price grows with the number of clients.
func BenchmarkTakeKeys(b *testing.B) {
	server := redistest.Shared(b)
	store := benchRedis(b, server)
	p := benchPolicy(b, limiter.DefaultAlgorithm)
	memory := memory.New()
	for n := 10; n <= 1_000_000; n *= 10 {
		keys := benchKeys(n)
		takeMany(b, memory, p, keys, 1, n)
		takeMany(b, store, p, keys, 512, n)
		b.Run(fmt.Sprintf("store=memory/keys=%d", n), func(b *testing.B) {
			measureTakes(b, memory, p, keys, 1)
		})
		b.Run(fmt.Sprintf("store=redis/keys=%d", n), func(b *testing.B) {
			measureTakes(b, store, p, keys, 64)
		})
	}
}

// stepClockFragment stands in for clock.lua: time goes on by a step at every run.
const stepClockFragment = `
local now_us = redis.call('INCRBY', 'test:clock', %d)
local grace = 3600000
`

// BenchmarkTakeLog measures how the price of the exact log grows with its limit. The log is full and
// time goes on, so that each request finds one entry that has just expired.
func BenchmarkTakeLog(b *testing.B) {
	for limit := int64(10); limit <= 100_000; limit *= 10 {
		const window = 100 * time.Second
		step := window.Microseconds() / limit
		p := storetest.NewPolicy(b, limiter.Settings{Name: "default", Algorithm: limiter.SlidingWindowLog, Limit: limit, Window: window})
		b.Run(fmt.Sprintf("store=memory/limit=%d", limit), func(b *testing.B) {
			now := storetest.Epoch
			takeFullLog(b, memory.NewOnClock(func() int64 { now += step; return now }), p)
		})
		b.Run(fmt.Sprintf("store=redis/limit=%d", limit), func(b *testing.B) {
			server := redistest.Shared(b)
			client, store := server.Client(b), benchRedis(b, server)
			store.Scripts.Clock = fmt.Sprintf(stepClockFragment, step)
			client.Set(context.Background(), "test:clock", storetest.Epoch, 0)
			takeFullLog(b, store, p)
		})
	}
}

// takeFullLog fills one client's log and goes on at the pace at which it empties.
func takeFullLog(b *testing.B, s limiter.Store, p *limiter.Policy) {
	b.Helper()
	client := []string{"client"}
	takeMany(b, s, p, client, 1, int(p.Capacity()))
	measureTakes(b, s, p, client, 1)
}

// lastingPolicy returns a policy whose states outlast the measurement of their size.
func lastingPolicy(b *testing.B, algorithm string) *limiter.Policy {
	b.Helper()
	return storetest.NewPolicy(b, limiter.Settings{Name: "default", Algorithm: algorithm, Limit: 10_000, Window: 24 * time.Hour})
}

// BenchmarkMemory measures the bytes of the heap that a state takes in process beyond its key, and
// an entry of the log beyond its state.
func BenchmarkMemory(b *testing.B) {
	const keySize = 13
	fill := func(b *testing.B, algorithm string, states, takes int) float64 {
		p, keys := lastingPolicy(b, algorithm), benchKeys(states)
		now := storetest.Epoch // time goes on, because a log may merge takes of one instant
		before := heapInUse()
		memory := memory.NewOnClock(func() int64 { now++; return now })
		takeMany(b, memory, p, keys, 1, takes*states)
		each := float64(heapInUse()-before) / float64(states)
		runtime.KeepAlive(memory)
		runtime.KeepAlive(keys)
		return each
	}
	for _, algorithm := range limiter.Algorithms() {
		for _, states := range []int{100_000, 130_000} { // maps grow by steps
			b.Run(fmt.Sprintf("algorithm=%s/keys=%d", algorithm, states), func(b *testing.B) {
				for b.Loop() {
					b.ReportMetric(fill(b, algorithm, states, 1)-keySize, "B/key")
				}
			})
		}
	}
	const logs = 20_000
	for _, entries := range []int{64, 100} { // full slices, and slices with room to grow
		b.Run(fmt.Sprintf("algorithm=sliding_window_log/entries=%d", entries), func(b *testing.B) {
			one := fill(b, limiter.SlidingWindowLog, logs, 1)
			for b.Loop() {
				b.ReportMetric((fill(b, limiter.SlidingWindowLog, logs, entries)-one)/float64(entries-1), "B/entry")
			}
		})
	}
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // the first only moves the pools' content aside
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc) //nolint:gosec // far below the bound
}

// BenchmarkRedisMemory measures the bytes that a state takes in Redis under a name of 30 bytes, and
// an entry of the log beyond it.
func BenchmarkRedisMemory(b *testing.B) {
	server := redistest.Start(b)
	client, store := server.Client(b), benchRedis(b, server)
	usage := func(b *testing.B, algorithm string, takes int) (bytes float64) {
		b.Helper()
		ctx := context.Background()
		noError(b, client.FlushDB(ctx).Err())
		takeMany(b, store, lastingPolicy(b, algorithm), benchKeys(1), 1, takes)
		names := client.Keys(ctx, "*").Val()
		if len(names) != 1 || len(names[0]) != 30 {
			b.Fatalf("keys %q, want one of 30 bytes", names)
		}
		return float64(client.MemoryUsage(ctx, names[0], 0).Val())
	}
	for _, algorithm := range limiter.Algorithms() {
		b.Run("algorithm="+algorithm, func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(usage(b, algorithm, 1), "B/key")
			}
		})
	}
	for _, entries := range []int{100, 2000} {
		b.Run(fmt.Sprintf("algorithm=sliding_window_log/entries=%d", entries), func(b *testing.B) {
			one := usage(b, limiter.SlidingWindowLog, 1)
			for b.Loop() {
				b.ReportMetric((usage(b, limiter.SlidingWindowLog, entries)-one)/float64(entries-1), "B/entry")
			}
		})
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
