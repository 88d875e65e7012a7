package failover

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/queue"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/wire"
)

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
			found := regexp.MustCompile(`cmdstat_evalsha:calls=\d+,usec=\d+,usec_per_call=([0-9.]+)`).FindStringSubmatch(client.Info(b.Context(), "commandstats").Val())
			if found == nil {
				b.Fatal("Redis has no statistics of the script")
			}
			took, err := strconv.ParseFloat(found[1], 64)
			noError(b, err)
			b.ReportMetric(took, "redis-µs/op")
		})
	}
}
