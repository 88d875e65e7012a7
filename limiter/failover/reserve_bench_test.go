package failover

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/queue"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/wire"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
)

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
				stats := client.Info(ctx, "commandstats").Val()
				b.ReportMetric(usecOf(stats, "evalsha")/float64(b.N*batch)*1000, "script-ns/decision")
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

// usecOf returns the microseconds that a command took in all.
func usecOf(stats, command string) (usec float64) {
	for line := range strings.Lines(stats) {
		var calls int
		if n, _ := fmt.Sscanf(line, "cmdstat_"+command+":calls=%d,usec=%f", &calls, &usec); n == 2 {
			return usec
		}
	}
	return 0
}
