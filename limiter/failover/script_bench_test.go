package failover

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/queue"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/running"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/wire"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis"
)

// BenchmarkScript measures the processor time of Redis for a decision of a batch, by the script of takes alone and
// by that of everything. An iteration is a round of both, and the numbers are the least of all rounds, because other
// processes only add to them.
func BenchmarkScript(b *testing.B) {
	keys := benchKeys(5000)
	server := redistest.Shared(b)
	client, random := server.Client(b), rand.New(rand.NewPCG(1, 2))
	stores := map[string]*redis.Store{"takes": benchRedis(b, server), "batch": benchRedis(b, server)}
	stores["batch"].Scripts.Always = true
	for _, algorithm := range limiter.Algorithms() {
		p := benchPolicy(b, algorithm)
		takeMany(b, stores["takes"], p, keys, 64, len(keys))
		for _, size := range []int{1, 10, 32} {
			b.Run(fmt.Sprintf("algorithm=%s/batch=%d", algorithm, size), func(b *testing.B) {
				least := map[string]float64{}
				for b.Loop() {
					for name, r := range stores {
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
	calls := make([]*queue.Call, size)
	before := processorTime(b, client)
	for range batches {
		for i := range calls {
			calls[i] = queue.NewCall(wire.OpTake, []limiter.Check{{Policy: p, Key: limiter.EncodeKey(keys[random.IntN(len(keys))])}})
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

// infoSum returns the sum of the numbers that a pattern finds in a section of what Redis reports.
func infoSum(t testing.TB, client *goredis.Client, section, pattern string) (sum float64) {
	t.Helper()
	for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatch(client.Info(context.Background(), section).Val(), -1) {
		n, err := strconv.ParseFloat(found[1], 64)
		noError(t, err)
		sum += n
	}
	return sum
}

// processorTime returns the seconds that Redis's main thread has used.
func processorTime(b *testing.B, client *goredis.Client) float64 {
	b.Helper()
	seconds := infoSum(b, client, "cpu", `used_cpu_(?:sys|user)_main_thread:([\d.]+)`)
	if seconds == 0 {
		b.Skip("this Redis does not report the time of its main thread")
	}
	return seconds
}

// BenchmarkRefundLog makes an entry of a log smaller that has so many later ones, and reports how long Redis
// takes for it.
func BenchmarkRefundLog(b *testing.B) {
	for _, later := range []int{0, 256, 1000, 10_000} {
		b.Run(fmt.Sprint("later=", later), func(b *testing.B) {
			server := redistest.Start(b)
			r, client := openRedis(b, server, 10*time.Second), server.Client(b)
			p := storetest.DayPolicy(b, "log", limiter.SlidingWindowLog, 20_000_000)
			first := queue.NewCall(wire.OpTakeRefundable, []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 10_000_000}})
			r.Send(context.Background(), r.Topology.AnyNode, []*queue.Call{first})
			for left := later; left > 0; left -= 100 {
				var calls []*queue.Call
				for range min(100, left) {
					calls = append(calls, queue.NewCall(wire.OpTake, []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1}}))
				}
				r.Send(context.Background(), r.Topology.AnyNode, calls)
			}
			check := first.Checks[0]
			client.ConfigResetStat(b.Context())
			b.ResetTimer()
			for range b.N {
				r.Send(context.Background(), r.Topology.AnyNode, []*queue.Call{newRefund(check)})
				check.Weight--
			}
			b.StopTimer()
			b.ReportMetric(infoSum(b, client, "commandstats", `cmdstat_evalsha:calls=\d+,usec=\d+,usec_per_call=([\d.]+)`), "redis-µs/op")
		})
	}
}

// BenchmarkTakeReserve measures what a request pays that leaves units to others: all requests of a batch do, or
// none. The script's time is that of Redis alone.
func BenchmarkTakeReserve(b *testing.B) {
	const batch = 64
	server := redistest.Start(b)
	store := benchRedis(b, server)
	client, ctx := server.Client(b), context.Background()
	for _, algorithm := range limiter.Algorithms() {
		p := benchPolicy(b, algorithm)
		for _, reserve := range []int64{0, p.Capacity() / 5} {
			b.Run(fmt.Sprintf("store=redis/algorithm=%s/reserve=%d", algorithm, reserve), func(b *testing.B) {
				client.ConfigResetStat(ctx)
				calls := make([]*queue.Call, batch)
				for n := range b.N {
					for i := range calls {
						calls[i] = queue.NewCall(wire.OpTake, []limiter.Check{{Policy: p, Key: limiter.EncodeKey(benchKey(n*batch + i)), Reserve: reserve}})
						calls[i].MarkSent()
					}
					store.Send(ctx, store.Topology.AnyNode, calls)
					for _, c := range calls {
						if c.Err != nil || !limiter.Allowed(c.Checks) {
							b.Fatal(c.Err, c.Checks)
						}
						c.Recycle()
					}
					if n%100 == 99 {
						b.StopTimer()
						client.FlushDB(ctx)
						b.StartTimer()
					}
				}
				b.ReportMetric(infoSum(b, client, "commandstats", `cmdstat_evalsha:calls=\d+,usec=(\d+)`)/float64(b.N*batch)*1000, "script-ns/decision")
			})
			b.Run(fmt.Sprintf("store=memory/algorithm=%s/reserve=%d", algorithm, reserve), func(b *testing.B) {
				m, keys := memory.New(), benchKeys(5000)
				checks := make([]limiter.Check, 1)
				for n := range b.N {
					checks[0] = limiter.Check{Policy: p, Key: limiter.EncodeKey(keys[n%len(keys)]), Reserve: reserve}
					if _, err := m.Decide(ctx, checks); err != nil || !limiter.Allowed(checks) {
						b.Fatal(err, checks)
					}
				}
			})
		}
	}
}

// BenchmarkRedis_states has one process state what it runs for 100,000 keys, as every third of the node
// timeout, and reports the time of Redis for one state, and which part of a core that is every 5 seconds.
func BenchmarkRedis_states(b *testing.B) {
	const keys = 100_000
	server := redistest.Shared(b)
	n := newTestRedis(b, server, 10*time.Second, limiter.KeyFormat{Prefix: "t"})
	p := storetest.ConcurrencyPolicy(b, 10)
	tracker := n.Running
	tracker.Ticks.Run = nil // the benchmark decides when states leave
	later := time.Duration(0)
	tracker.Now = func() clock.Moment { return clock.Now().Add(later) }
	for i := range keys {
		key := fmt.Sprintf("10.0.%d.%d", i/256, i%256)
		s := tracker.Shards.Of(key)
		s.Mu.Lock()
		tracker.LetThrough(tracker.Find(p, key, tracker.Now()), 1, tracker.Now())
		s.Mu.Unlock()
	}
	round := func() {
		for left := 0; left < running.StatesPerSpan; {
			if left = tracker.SendDue(running.StatesPerSpan); left == 0 {
				time.Sleep(running.BusySpan) //nolint:forbidigo // the pace of states
			}
		}
		for inflight(tracker) > 0 {
			time.Sleep(20 * time.Millisecond) //nolint:forbidigo // measures while it waits
		}
	}
	round()
	client, states := server.Client(b), 0
	before := processorTime(b, client)
	for b.Loop() {
		later += 5 * time.Second
		round()
		states += keys
	}
	each := (processorTime(b, client) - before) / float64(states)
	b.ReportMetric(each*1e6, "redis-µs/state")
	b.ReportMetric(each*keys/5*100, "%core")
}

// inflight returns how many messages are on their way.
func inflight(t *running.Tracker) (messages int) {
	for i := range t.Shards {
		s := &t.Shards[i]
		s.Mu.Lock()
		for _, r := range s.Records {
			messages += r.Inflight
		}
		s.Mu.Unlock()
	}
	return messages
}
