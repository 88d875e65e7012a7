package limiter

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// BenchmarkRefundLog makes an entry of a log smaller that has so many later ones, and reports how long Redis
// takes for it.
func BenchmarkRefundLog(b *testing.B) {
	for _, later := range []int{0, 256, 1000, 10_000} {
		b.Run(fmt.Sprint("later=", later), func(b *testing.B) {
			server := redistest.Start(b)
			r, client := openRedis(b, server, 10*time.Second), server.Client(b)
			p := dayPolicy(b, "log", SlidingWindowLog, 20_000_000)
			first := newCall(opTakeRefundable, []Check{{Policy: p, Key: EncodeKey("k"), Weight: 10_000_000}})
			r.send(context.Background(), r.topology.anyNode, []*call{first})
			for left := later; left > 0; left -= 100 {
				var calls []*call
				for range min(100, left) {
					calls = append(calls, newCall(opTake, []Check{{Policy: p, Key: EncodeKey("k"), Weight: 1}}))
				}
				r.send(context.Background(), r.topology.anyNode, calls)
			}
			check := first.checks[0]
			keptOf(&check).Receipt = first.receipts[0]
			client.ConfigResetStat(b.Context())
			b.ResetTimer()
			for range b.N {
				r.send(context.Background(), r.topology.anyNode, []*call{newRefund(check)})
				check.Weight--
			}
			b.StopTimer()
			found := regexp.MustCompile(`cmdstat_evalsha:calls=\d+,usec=\d+,usec_per_call=([0-9.]+)`).FindStringSubmatch(client.Info(b.Context(), "commandstats").Val())
			if found == nil {
				b.Fatal("Redis has no statistics of the script")
			}
			took, err := strconv.ParseFloat(found[1], 64)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(took, "redis-µs/op")
		})
	}
}
