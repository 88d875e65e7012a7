package failover

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/queue"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/wire"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis"
)

// BenchmarkScript measures the processor time of Redis for a decision of a batch, by the script of takes alone and
// by that of everything. An iteration is a round of both, and the numbers are the least of all rounds, because other
// processes only add to them.
func BenchmarkScript(b *testing.B) {
	keys := benchKeys(5000)
	server := redistest.Start(b)
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
