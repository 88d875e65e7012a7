package failover

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
)

// newLeasingFailover returns a store on a Redis.
func newLeasingFailover(t testing.TB, server *redistest.Server) *Store {
	t.Helper()
	r := newTestRedis(t, server, 2*time.Second, limiter.KeyFormat{Prefix: "t"})
	return New(r, memory.New(), Options{DenyAge: time.Second})
}

// TestFailover_lease spends most requests of a busy key without asking Redis, and counts all of them there.
func TestFailover_lease(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for _, algorithm := range limiter.Algorithms() {
		t.Run(algorithm, func(t *testing.T) {
			f := newLeasingFailover(t, server)
			var spent, lapsed atomic.Int64
			f.leases.Ended = func(_ string, fate limiter.LeaseFate, units int64) {
				switch fate {
				case limiter.LeaseSpent:
					spent.Add(units)
				case limiter.LeaseLapsed:
					lapsed.Add(units)
				}
			}
			p := storetest.NewPolicy(t, limiter.Settings{Name: "lease", Algorithm: algorithm, Limit: 1_000_000, Window: time.Minute, Lease: limiter.MaxLease})
			sources := map[limiter.Source]int{}
			const requests = 5000
			for range requests {
				checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k")}}
				source, err := f.Decide(context.Background(), checks)
				if err != nil || !checks[0].Result.Passes() {
					t.Fatal(source, err, checks[0].Result)
				}
				sources[source]++
			}
			if sources[limiter.SourceLease] < requests*9/10 {
				t.Errorf("decided by %v", sources)
			}
			f.EndLeases()
			least, most := int64(requests), int64(requests)
			if p.IsBucket() {
				least, most = 0, requests+p.Capacity()/50 // what drains, and what leases have raised the debt by
			}
			awaitUsed(t, f, p, least, most)
			if got := int64(sources[limiter.SourceLease]); spent.Load() != got || lapsed.Load() != 0 {
				t.Errorf("%d units of leases were counted as spent and %d as lapsed, want %d and 0", spent.Load(), lapsed.Load(), got)
			}
		})
	}
}

// awaitUsed waits until the used units of a key in Redis are in a range.
func awaitUsed(t *testing.T, f *Store, p *limiter.Policy, least, most int64) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		check := limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Peek: true}
		if _, err := f.Peek(context.Background(), &check); err != nil {
			t.Fatal(err)
		}
		used := p.Capacity() - check.Result.Remaining
		if used >= least && used <= most {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d units are used; want %d to %d", used, least, most)
		}
	}
}
