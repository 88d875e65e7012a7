package failover

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/lease"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
)

// BenchmarkLeaseTable measures what a request of a busy key costs that a lease decides, and what leases cost
// the keys that are none.
func BenchmarkLeaseTable(b *testing.B) {
	p := storetest.NewPolicy(b, limiter.Settings{Name: "lease", Limit: 1_000_000, Window: time.Minute, Lease: limiter.MaxLease})
	b.Run("spend", func(b *testing.B) {
		table, checks := lease.NewTable(), []limiter.Check{{Policy: p, Key: limiter.EncodeKey("203.0.113.7")}}
		table.Ask = func(q lease.Question) { // answers at once
			q.Sent = clock.Now()
			table.Answered(q, 900_000, time.Minute, kernel.Lease{Units: 200, Lasts: 1_000_000})
		}
		table.GiveBack = func(*lease.BusyKey, lease.HeldUnits) {}
		for range 20 {
			if k, _ := table.Spend(&checks[0], clock.Now()); k != nil {
				table.AskFor(k)
			}
		}
		spent := 0
		b.ReportAllocs()
		for b.Loop() {
			if _, units := table.Spend(&checks[0], clock.Now()); units.Number > 0 {
				spent++
			}
		}
		if spent < b.N*9/10 {
			b.Errorf("%d of %d were spent", spent, b.N)
		}
	})
	b.Run("cold", func(b *testing.B) {
		table, checks := lease.NewTable(), make([]limiter.Check, 5000)
		for i := range checks {
			checks[i] = limiter.Check{Policy: p, Key: limiter.EncodeKey("203.0.113." + strconv.Itoa(i))}
		}
		at := clock.Now()
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			at += clock.Moment(40 * time.Microsecond)
			table.Spend(&checks[i%len(checks)], at)
		}
	})
}

// BenchmarkFailover_lease measures decisions of a busy key as programs make them.
func BenchmarkFailover_lease(b *testing.B) {
	server := redistest.Start(b)
	f := newLeasingFailover(b, server)
	p := storetest.NewPolicy(b, limiter.Settings{Name: "lease", Limit: 1_000_000_000, Window: time.Minute, Lease: limiter.MaxLease})
	checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k")}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Decide(context.Background(), checks); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(infoSum(b, server.Client(b), "commandstats", `cmdstat_evalsha:calls=(\d+)`)/float64(b.N), "runs/op")
}
