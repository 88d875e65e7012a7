package failover

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// newLeasingFailover returns a store on a Redis.
func newLeasingFailover(t testing.TB, server *redistest.Server) *Store {
	t.Helper()
	return New(stores.Open(t, server), memory.New(), Behavior{DenyAge: time.Second})
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
			const window = 30 * 24 * time.Hour // no unit leaves the window meanwhile, as some do where a minute ends between two requests
			p := storetest.NewPolicy(t, limiter.Settings{Name: "lease", Algorithm: algorithm, Limit: 1_000_000, Window: window, Lease: limiter.MaxLease})
			sources := map[limiter.Source]int{}
			const requests = 5000
			for range requests {
				checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k")}}
				source, err := f.Decide(context.Background(), checks)
				assert.FatalIf(t, err != nil || !checks[0].Result.Passes(), "%+v %+v %+v", source, err, checks[0].Result)
				sources[source]++
			}
			assert.ErrorIf(t, sources[limiter.SourceLease] < requests*9/10, "decided by %v", sources)
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
	assert.Retry(t, fmt.Sprintf("%d to %d units are used", least, most), func() (again bool, seen any) {
		check := limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Peek: true}
		assert.NoError(f.Peek(context.Background(), &check))(t)
		used := p.Capacity() - check.Result.Remaining
		return used < least || used > most, used
	})
}

// leaseLoad is requests of two nodes that lease from the key k: more at once than there are units, some of them with
// another check that is denied mostly. Nothing decays meanwhile: the window ends in another year.
type leaseLoad struct {
	nodes                       [2]*Store
	policy                      *limiter.Policy
	scarce                      limiter.Check
	workers, requests           int
	admitted, leased, fallbacks atomic.Int64
}

func newLeaseLoad(t *testing.T, open func() *Store, algorithm, scarceKey string, limit int64) *leaseLoad {
	t.Helper()
	return &leaseLoad{
		nodes:  [2]*Store{open(), open()},
		policy: storetest.NewPolicy(t, limiter.Settings{Name: "load", Algorithm: algorithm, Limit: limit, Window: 400 * 24 * time.Hour, Lease: limiter.MaxLease}),
		scarce: limiter.Check{Policy: storetest.NewPolicy(t, limiter.Settings{Name: "scarce-" + algorithm, Limit: 100, Window: 24 * time.Hour}), Key: limiter.EncodeKey(scarceKey)},
	}
}

func (l *leaseLoad) run(t *testing.T) {
	t.Helper()
	storetest.InParallel(l.workers, func(worker int) {
		random := rand.New(rand.NewPCG(uint64(worker), 3))
		for range l.requests {
			checks := []limiter.Check{{Policy: l.policy, Key: limiter.EncodeKey("k"), Weight: 1 + random.Int64N(2)}}
			if random.IntN(4) == 0 {
				checks = append(checks, l.scarce)
			}
			source, err := l.nodes[worker%2].Decide(context.Background(), checks)
			if err != nil {
				t.Error(err)
				return
			}
			switch source {
			case limiter.SourceLease:
				l.leased.Add(1)
			case limiter.SourceFallback:
				l.fallbacks.Add(1)
			}
			if limiter.Allowed(checks) {
				l.admitted.Add(checks[0].Weight)
			} else if len(checks) == 1 && source == limiter.SourceLease {
				t.Errorf("a lease denied: %+v", checks[0].Result)
			}
		}
	})
}

// wantExact ends the leases. Redis has counted exactly what was admitted.
func (l *leaseLoad) wantExact(t *testing.T) {
	t.Helper()
	for _, node := range l.nodes {
		node.EndLeases()
	}
	admitted, leased := l.admitted.Load(), l.leased.Load()
	assert.ErrorIf(t, admitted > l.policy.Capacity() || leased < int64(l.requests),
		"%d units of %d were admitted, %d requests by leases", admitted, l.policy.Capacity(), leased)
	awaitUsed(t, l.nodes[1], l.policy, admitted, admitted)
	t.Logf("%d units admitted, %d of %d requests decided by leases", admitted, leased, l.workers*l.requests)
}

// TestFailover_lease_nodes has two nodes lease from a key.
func TestFailover_lease_nodes(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for _, algorithm := range []string{limiter.FixedWindow, limiter.SlidingWindowCounter, limiter.SlidingWindowLog} {
		t.Run(algorithm, func(t *testing.T) {
			load := newLeaseLoad(t, func() *Store { return newLeasingFailover(t, server) }, algorithm, "k", 10_000)
			load.workers, load.requests = 8, 2500
			load.run(t)
			load.wantExact(t)
		})
	}
}

// TestFailover_lease_reset resets a key whose units are leased: nothing of the old count is left, and
// nothing that was leased from it is spent or given back.
func TestFailover_lease_reset(t *testing.T) {
	t.Parallel()
	f := newLeasingFailover(t, redistest.Shared(t))
	p := storetest.NewPolicy(t, limiter.Settings{Name: "reset", Algorithm: limiter.FixedWindow, Limit: 10_000, Window: storetest.LongWindow(0), Lease: limiter.MaxLease})
	key := limiter.EncodeKey("k")
	lendTo(t, f, p)
	assert.NoError(f.Reset(context.Background(), p, key))(t)
	units, _ := f.Leased("reset", key)
	assert.ErrorIf(t, units != 0, "%d units are held after the reset", units)
	awaitUsed(t, f, p, 0, 0)
	lendTo(t, f, p)
	f.ForgetDenials("reset", key) // as a changed override does
	units, _ = f.Leased("reset", key)
	assert.ErrorIf(t, units != 0, "%d units are held after the override", units)
	awaitUsed(t, f, p, 0, 1000) // the rest is back
}

// lendTo makes requests of a key until this node holds units of it.
func lendTo(t *testing.T, f *Store, p *limiter.Policy) {
	t.Helper()
	for range 10_000 {
		if units, lasts := f.Leased(p.Name(), limiter.EncodeKey("k")); units > 0 && lasts > 0 {
			return
		}
		storetest.Decide(t, f, limiter.Check{Policy: p, Key: limiter.EncodeKey("k")})
	}
	t.Fatal("nothing is leased")
}

// TestFailover_lease_outage spends what was leased while Redis is away, and counts it as used afterwards.
func TestFailover_lease_outage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	f := newLeasingFailover(t, server)
	p := storetest.NewPolicy(t, limiter.Settings{Name: "outage", Algorithm: limiter.SlidingWindowLog, Limit: 1000, Window: 400 * 24 * time.Hour, Lease: limiter.MaxLease})
	admitted := int64(0)
	source := limiter.SourceRedis
	decide := func() {
		checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k")}}
		var err error
		if source, err = f.Decide(context.Background(), checks); err != nil {
			t.Fatal(err)
		}
		if limiter.Allowed(checks) {
			admitted++
		}
	}
	for held := int64(0); held == 0; held, _ = f.Leased("outage", limiter.EncodeKey("k")) {
		decide()
		prolong(f)
	}
	server.Kill()
	if decide(); source != limiter.SourceLease {
		t.Errorf("decided by %s; want the lease", source)
	}
	for range 3000 {
		decide()
	}
	assert.ErrorIf(t, source != limiter.SourceFallback || admitted > 1000,
		"decided by %s in the end, %d of 1000 admitted", source, admitted)
}
