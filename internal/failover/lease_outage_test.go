package failover

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/lease"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// prolong has what is held last for an hour, the keys be busy for as long, and Redis seem near, so that the
// machine's pace does not matter.
func prolong(f *Store) {
	for range 20 * lease.PaceSamples {
		f.leases.LearnTrip(time.Millisecond)
	}
	for i := range f.leases.Shards {
		s := &f.leases.Shards[i]
		s.Mu.Lock()
		for _, k := range s.Busy {
			later := clock.Now().Add(time.Hour)
			for j := range k.Open {
				k.Leases[j].Until = later
			}
			k.Pace = lease.Pace{Last: later, Gaps: lease.PaceSamples}
		}
		s.Mu.Unlock()
	}
}

// lendForLong has this node hold units of the key "k" for an hour, and returns how many. On a slow machine a lease may end
// before it is prolonged.
func lendForLong(t *testing.T, f *Store, p *limiter.Policy) (held int64) {
	t.Helper()
	for held == 0 {
		lendTo(t, f, p)
		prolong(f)
		held, _ = f.Leased(p.Name(), limiter.EncodeKey("k"))
	}
	return held
}

// TestFailover_lease_unanswered exchanges a lease by a request for more units than are left of it. Where the
// reply is lost Redis may have taken the rest back, so that nothing of it is spent. Where no question has left
// it is still held.
func TestFailover_lease_unanswered(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	exchange(t, proxy.Addr, proxy.CutNextReply, false)
	exchange(t, server.Addr, server.Kill, true)
}

// exchange has a request exchange a lease during a fault, after which the lease is held or not.
func exchange(t *testing.T, address string, fault func(), held bool) {
	t.Helper()
	r := stores.OpenStore(t, dial.Connection{Addresses: []string{address}, Timeout: stores.Patience, PoolSize: 1}, redis.Setup{KeyFormat: limiter.KeyFormat{Prefix: "t"}})
	f := New(r, memory.New(), Behavior{})
	p := storetest.NewPolicy(t, limiter.Settings{Name: "lost", Algorithm: limiter.FixedWindow, Limit: 100_000, Window: 400 * 24 * time.Hour, Lease: limiter.MaxLease})
	before := lendForLong(t, f, p)
	fault()
	checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 10_000}}
	source, err := f.Decide(context.Background(), checks)
	assert.FatalIf(t, err != nil || source != limiter.SourceFallback,
		"decided by %s, %v; want the fallback", source, err)
	if after, _ := f.Leased("lost", limiter.EncodeKey("k")); (after == before) != held || (after == 0) == held {
		t.Errorf("%d units of %d are held; want them held: %v", after, before, held)
	}
}

// TestFailover_lease_refill uses nine tenths of a limit, nearly all of it by leases, before Redis dies: the outage
// is no refill. The questions of a key that is decided by leases are asked in the background.
func TestFailover_lease_refill(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{limiter.FixedWindow, limiter.SlidingWindowCounter, limiter.SlidingWindowLog, limiter.GCRA} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			f := New(stores.Open(t, server), memory.New(), Behavior{})
			p := storetest.NewPolicy(t, limiter.Settings{Name: "refill", Algorithm: algorithm, Limit: 2000, Window: 24 * time.Hour, Lease: limiter.MaxLease})
			passed := map[limiter.Source]int{}
			request := func() {
				checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k")}}
				source := assert.NoError(f.Decide(context.Background(), checks))(t)
				if limiter.Allowed(checks) {
					passed[source]++
				}
			}
			for range 1800 {
				request()
				<-time.After(50 * time.Microsecond) // slower than a question, so that no request waits for one
			}
			server.Kill()
			for range 2200 {
				request()
			}
			// A bucket may drain a unit meanwhile.
			if total := passed[limiter.SourceRedis] + passed[limiter.SourceLease] + passed[limiter.SourceFallback]; total > 2001 || passed[limiter.SourceLease] < 1000 || passed[limiter.SourceFallback] == 0 {
				t.Errorf("%v passed of 2,000", passed)
			}
		})
	}
}

// TestFailover_lease_slow_answer has a node learn that Redis is fast again after one answer that was so late that
// no lease would last.
func TestFailover_lease_slow_answer(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	p := storetest.NewPolicy(t, limiter.Settings{Name: "slow", Limit: 1_000_000, Window: 10 * time.Second, Lease: limiter.MaxLease})
	other := storetest.NewPolicy(t, limiter.Settings{Name: "other", Limit: 1_000_000, Window: 24 * time.Hour})
	for name, checks := range map[string]func() []limiter.Check{
		"alone": func() []limiter.Check { return []limiter.Check{{Policy: p, Key: limiter.EncodeKey("a")}} },
		"with others": func() []limiter.Check {
			return []limiter.Check{{Policy: p, Key: limiter.EncodeKey("b")}, {Policy: other, Key: limiter.EncodeKey("b")}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := New(stores.Open(t, server), memory.New(), Behavior{})
			f.leases.LearnTrip(90 * time.Millisecond)
			assert.WaitFor(t, "units are leased", func() error {
				for range 100 {
					checks := checks()
					storetest.Decide(t, f, checks...)
					if units, _ := f.Leased("slow", checks[0].Key); units > 0 {
						return nil
					}
				}
				return errors.New("none are, with a round trip of " + f.leases.RoundTrip().String())
			})
		})
	}
}

// newClusterFailover returns a leasing store on a Cluster.
func newClusterFailover(t *testing.T, servers []*redistest.Server) *Store {
	t.Helper()
	return New(stores.OpenClusterWithin(t, servers, stores.Patience), memory.New(), Behavior{DenyAge: time.Second})
}

// TestFailover_lease_Cluster has two nodes lease from a key whose slot moves meanwhile, with requests that
// take from a second slot too, and scripts that are dropped. In the end the slot's master has counted
// exactly what was admitted.
func TestFailover_lease_Cluster(t *testing.T) {
	t.Parallel()
	masters := redistest.StartCluster(t)
	for _, algorithm := range []string{limiter.FixedWindow, limiter.SlidingWindowLog} {
		t.Run(algorithm, func(t *testing.T) {
			load := newLeaseLoad(t, func() *Store { return newClusterFailover(t, masters) }, algorithm, "other", 12_000)
			load.workers, load.requests = 6, 2000
			slot := load.nodes[0].shared.SlotOf(limiter.EncodeKey("k"))
			assert.FatalIf(t, slot == load.nodes[0].shared.SlotOf(load.scarce.Key),
				"the keys must be in different slots")
			done := make(chan struct{})
			go func() {
				load.run(t)
				close(done)
			}()
			from := int(slot) * len(masters) / redis.ClusterSlots
			to := (from + 1) % len(masters)
			moves := 0
			for ended := false; !ended || moves%2 == 0; moves++ { // ends on another master than at first
				redistest.MoveSlot(t, masters, slot, from, to)
				from, to = to, from
				for _, m := range masters {
					m.Client(t).ScriptFlush(context.Background())
				}
				select {
				case <-done:
					ended = true
				default:
				}
			}
			load.wantExact(t)
			n := load.fallbacks.Load()
			assert.ErrorIf(t, n > 0, "%d requests were not decided by Redis", n)
			t.Logf("%d moves", moves)
			redistest.MoveSlot(t, masters, slot, from, to)
		})
	}
}

// TestFailover_lease_Cluster_failover kills the master of a key whose units are held. They may be spent, and
// the replica that takes over gets back what is left.
func TestFailover_lease_Cluster_failover(t *testing.T) {
	t.Parallel()
	masters, replicas := redistest.StartReplicatedCluster(t)
	f := newClusterFailover(t, masters)
	p := storetest.NewPolicy(t, limiter.Settings{Name: "failover", Algorithm: limiter.FixedWindow, Limit: 10_000, Window: 400 * 24 * time.Hour, Lease: limiter.MaxLease})
	before := lendForLong(t, f, p)
	dead := int(f.shared.SlotOf(limiter.EncodeKey("k"))) * len(masters) / redis.ClusterSlots
	check := limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Peek: true}
	used := p.Capacity() - storetest.Decide(t, f.shared, check)[0].Result.Remaining
	redistest.AwaitReplica(t, replicas[dead], masters[dead])
	redistest.SetNodeTimeout(t, slices.Concat(masters, replicas), "1000")
	masters[dead].Kill()
	request := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k")}}
	source, err := f.Decide(context.Background(), request)
	assert.ErrorIf(t, source != limiter.SourceLease || err != nil, "decided by %s, %v; want the lease", source, err)
	assert.WaitFor(t, "the replica is the master", func() error {
		if info := replicas[dead].Client(t).Info(context.Background(), "replication").Val(); !strings.Contains(info, "role:master") {
			return limiter.ErrOutage
		}
		return nil
	})
	assert.WaitFor(t, "the replica decides", func() error {
		_, err := f.shared.Decide(context.Background(), []limiter.Check{check})
		return err
	})
	// What was held when the master died has lapsed, or is back.
	for range 500 {
		storetest.Decide(t, f, request...)
	}
	f.EndLeases()
	t.Logf("%d units were used when the master died, %d of them held", used, before)
	awaitUsed(t, f, p, used-before+501, used+501)
}
