package redis_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// waitProbes waits until a node has been probed twice and still fails.
func waitProbes(t *testing.T, s *redis.Node) {
	t.Helper()
	last := s.Breaker.Probes.Load()
	for range 2 {
		assert.WaitFor(t, "the server is probed", func() error {
			if at := s.Breaker.Probes.Load(); at != last {
				last = at
				return nil
			}
			return errors.New("not yet")
		})
	}
	assert.ErrorIf(t, !s.Breaker.Open(), "the probe has closed the breaker")
}

func TestProbe_missing_permission(t *testing.T) {
	t.Parallel()
	for right, algorithm := range map[string]string{"set": limiter.GCRA, "rpush": limiter.SlidingWindowLog, "pexpire": limiter.SlidingWindowLog, "get": limiter.FixedWindow, "llen": limiter.SlidingWindowLog} {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			weight := int64(1)
			if right == "llen" {
				weight = 100 // a denial alone needs it
			}
			r, reported, setPermissions := stores.OpenLimited(t)
			p := storetest.DayPolicy(t, "limited", algorithm, 100)
			other := storetest.DayPolicy(t, "other", limiter.GCRA, 100)
			storetest.Decide(t, r, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1})
			setPermissions("-" + right)
			check := limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: weight}
			err := r.Probe(t.Context(), []limiter.Check{check})
			assert.ErrorIf(t, limiter.Kind(err) != "auth", "a probe before any decision: %v", err)
			_, err = r.ProbeEach(t.Context(), []*limiter.Policy{other, p})
			assert.ErrorIf(t, limiter.Kind(err) != "auth", "a probe of all policies: %v", err)
			_, err = r.Decide(t.Context(), []limiter.Check{check})
			assert.ErrorIf(t, limiter.Kind(err) != "auth", "a decision: %v of kind %s", err, limiter.Kind(err))
			_, err = r.Decide(t.Context(), []limiter.Check{check})
			assert.ErrorIf(t, !errors.Is(err, limiter.ErrOutage), "the next decision: %v", err)
			waitProbes(t, r.Topology.AnyNode)
			err = r.Probe(t.Context(), []limiter.Check{check})
			assert.ErrorIf(t, limiter.Kind(err) != "auth", "a probe while the breaker is open: %v", err)
			setPermissions("+" + right)
			stores.WaitReported(t, reported, "outage:auth recovery")
			storetest.Decide(t, r, check)
		})
	}
}

// TestProbe_refund has a refund from a long log need a permission that no take needs.
func TestProbe_refund(t *testing.T) {
	t.Parallel()
	for _, right := range []string{"lset", "lrange"} {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			r, reported, setPermissions := stores.OpenLimited(t)
			p := storetest.RefundingPolicy(t, "limited", limiter.SlidingWindowLog, 100)
			first := storetest.Decide(t, r, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1, Refundable: true})
			storetest.Decide(t, r, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1})
			setPermissions("-" + right)
			storetest.RefundIn(r, first)
			stores.WaitReported(t, reported, "outage:auth lost:auth")
			waitProbes(t, r.Topology.AnyNode)
			storetest.RefundIn(r, first)
			unsent := 0
			r.SettleThen(&first[0], limiter.Change{Units: 1}, false, func(e redis.Ended) {
				if unsent++; !errors.Is(e.Err(), limiter.ErrOutage) || e.Unsent() == nil {
					t.Errorf("a charge while the breaker is open: %v", e.Err())
				}
			})
			assert.ErrorIf(t, unsent != 1, "a charge is sent while the breaker is open")
			setPermissions("+" + right)
			stores.WaitReported(t, reported, "outage:auth lost:auth lost:breaker recovery")
		})
	}
}

func TestProbe_idle_store(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := stores.Open(t, server)
	p := storetest.DayPolicy(t, "idle", limiter.GCRA, 100)
	server.Kill()
	err := errorOf(r, p, "k")
	assert.FatalIf(t, err == nil, "a dead Redis decides")
	server.Run(t)
	stores.WaitFailing(t, &r.Topology, false, func() {})
	client, ctx := server.Client(t), t.Context()
	name := r.RedisKey(p, limiter.AsEncoded(redis.ProbeKey))
	keys := client.Keys(ctx, "*").Val()
	assert.ErrorIf(t, len(keys) > 1 || len(keys) == 1 && keys[0] != name, "the probe has left %v", keys)
	ttl := client.PTTL(ctx, name).Val()
	assert.ErrorIf(t, ttl > 3*time.Second || ttl == -1, "its key lives for %v", ttl)
}

func TestProbe_idle_master(t *testing.T) {
	t.Parallel()
	r, masters := openTolerantCluster(t)
	p := storetest.DayPolicy(t, "idle", limiter.SlidingWindowLog, 100)
	key := clientsIn(r, 1, 2*redis.ClusterSlots/3+1, redis.ClusterSlots)[0]
	storetest.Decide(t, r, limiter.Check{Policy: p, Key: limiter.EncodeKey(key), Weight: 1})
	storetest.Decide(t, r, limiter.Check{Policy: p, Key: limiter.EncodeKey(key), Weight: 1})
	masters[2].Kill()
	stores.WaitFailing(t, &r.Topology, true, func() { _ = errorOf(r, p, key) })
	masters[2].Run(t)
	stores.WaitFailing(t, &r.Topology, false, func() {})
}

func TestProbe_keys(t *testing.T) {
	t.Parallel()
	for _, naming := range []limiter.KeyFormat{{Prefix: "rl"}, {Prefix: "rl", Secret: "s"}} {
		r := &redis.Store{Admin: redis.Admin{KeyFormat: naming}}
		n := redis.NewKeyWriter(naming)
		for slot := uint16(0); slot < redis.ClusterSlots; slot += 997 {
			if key := r.ProbeKeyIn(slot); n.SlotOf(key) != slot || !strings.HasPrefix(key, redis.ProbeKey) {
				t.Errorf("slot %d: %q lies in %d", slot, key, n.SlotOf(key))
			}
		}
	}
}

func TestProbe_ends(t *testing.T) {
	t.Parallel()
	a := newTestCluster(t, owned(0, 16383, masterA))
	refused := dial.Undecided(dial.Failure("READONLY")) // by a server that is there
	var running sync.Map                                // how many probes, by node
	probing := func(n *redis.Node) *atomic.Int32 {
		count, _ := running.LoadOrStore(n, &atomic.Int32{})
		return count.(*atomic.Int32) //nolint:forcetypeassert,errcheck // nothing else is stored
	}
	a.Topology.Send = func(_ context.Context, n *redis.Node, calls []*redis.Call) bool {
		assert.ErrorIf(t, probing(n).Add(1) > 1, "two probe a node at once")
		<-n.Probes.Life.Done()
		probing(n).Add(-1)
		for _, c := range calls {
			c.Err = refused
		}
		return true
	}
	probed := func() *redis.Node {
		n := a.Topology.To(0)
		n.Report(redis.OpTake, 0, nil, clock.Now(), refused)
		assert.Retry(t, "the server is probed", func() (again bool, seen any) {
			return probing(n).Load() == 0 || !n.Breaker.Open(), "no probe"
		})
		return n
	}
	ends := func(n *redis.Node) {
		assert.Retry(t, "the probes end", func() (again bool, seen any) {
			return probing(n).Load() > 0 || n.Probes.Life.Err() == nil, "one under way"
		})
	}
	a.Topology.Discover()
	retired := probed()
	a.assign(t, owned(0, 16383, masterB))
	a.Topology.To(0) // retires it
	ends(retired)
	last := probed()
	assert.Must(t, a.Close())
	ends(last)
}

// TestProbe_replaced_master sends no further request for the slot.
func TestProbe_replaced_master(t *testing.T) {
	t.Parallel()
	a := newTestCluster(t, owned(0, 16383, masterA))
	a.Topology.Discover()
	a.Topology.To(0).Report(redis.OpTake, 0, nil, clock.Now(), refused)
	a.assign(t, owned(0, 16383, masterB))
	stores.WaitFailing(t, &a.Topology, false, func() {})
}

// TestRedis_enqueueAsync_full_queue queues a refund where the queue is full.
func TestRedis_enqueueAsync_full_queue(t *testing.T) {
	t.Parallel()
	r := stores.Open(t, redistest.Shared(t))
	reported := &stores.Reports{}
	s := r.Topology.AnyNode
	s.Lost = func(err error) { reported.Add(limiter.Kind(err)) }
	s.Batcher.Waiting = make([]*redis.Call, redis.MaxQueue)
	storetest.RefundIn(r, []limiter.Check{{Policy: storetest.DayPolicy(t, "full", limiter.GCRA, 10), Key: limiter.EncodeKey("k"), Refundable: true}})
	assert.ErrorIf(t, reported.String() != "overload" || s.Breaker.Row.Load()%(redis.FailuresInARow+1) != 1,
		"reported %q, %d failures", reported, s.Breaker.Row.Load()%(redis.FailuresInARow+1))
	s.Batcher.Waiting = nil
}
