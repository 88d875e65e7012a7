package redis_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

func TestCluster(t *testing.T) {
	t.Parallel()
	r, masters := stores.OpenCluster(t)

	t.Run("spreads clients over the masters and counts each exactly", func(t *testing.T) {
		p := storetest.DayPolicy(t, "spread", limiter.SlidingWindowCounter, 7)
		var allowed atomic.Int64
		const clients, each = 40, 12
		storetest.InParallel(clients*each, func(i int) {
			checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey(fmt.Sprint("client-", i/each)), Weight: 1}}
			if _, err := r.Decide(context.Background(), checks); err != nil {
				t.Error(err)
			} else if limiter.Allowed(checks) {
				allowed.Add(1)
			}
		})
		assert.Equal(t, allowed.Load(), clients*7, "the number of requests that passed")
		for _, master := range masters {
			n := master.Client(t).DBSize(context.Background()).Val()
			assert.ErrorIf(t, n == 0, "master %s has no key", master.Addr)
		}
	})

	for _, algorithm := range limiter.Algorithms() {
		t.Run("decides all or nothing across slots by "+algorithm, func(t *testing.T) { raceAcrossSlots(t, r, algorithm) })
	}

	t.Run("asks the right master at once", func(t *testing.T) {
		for _, master := range masters {
			stats := master.Client(t).Info(context.Background(), "errorstats").Val()
			assert.ErrorIf(t, strings.Contains(stats, "MOVED"), "master %s sent requests elsewhere: %s", master.Addr, stats)
		}
	})

	t.Run("finds the slot of any key", func(t *testing.T) {
		p := storetest.DayPolicy(t, "braces", limiter.FixedWindow, 1)
		for _, key := range []string{"", "%", "}", "}a", "{}", "{a}b", "a}b"} {
			for _, want := range []bool{true, false} {
				if got, err := storetest.Allow(t.Context(), r, p, key); err != nil || got.Passes() != want {
					t.Errorf("key %q: passes is %v, %v; want %v", key, got.Passes(), err, want)
				}
			}
		}
		for _, n := range r.Topology.Nodes() {
			assert.ErrorIf(t, n.Breaker.Open(), "a breaker has opened")
		}
	})
}

// raceAcrossSlots has two quotas of different clients, in different slots, race: the small one may
// be used up, and the units gone from the large one must be those of requests that passed.
func raceAcrossSlots(t *testing.T, r *redis.Store, algorithm string) {
	large := storetest.DayPolicy(t, "large-"+algorithm, algorithm, 1_000)
	small := storetest.DayPolicy(t, "small-"+algorithm, algorithm, 30)
	checks := func() []limiter.Check {
		return []limiter.Check{{Policy: large, Key: limiter.EncodeKey("k"), Weight: 2}, {Policy: small, Key: limiter.EncodeKey("one"), Weight: 1}}
	}
	assert.FatalIf(t, len(r.GroupBySlot(checks())) == 1, "the keys must be in different slots")
	var allowed atomic.Int64
	storetest.InParallel(32, func(_ int) {
		for range 4 {
			request := checks()
			if _, err := r.Decide(context.Background(), request); err != nil {
				t.Error(err)
			} else if limiter.Allowed(request) {
				allowed.Add(1)
			}
		}
	})
	got := allowed.Load()
	assert.ErrorIf(t, got > 30 || got < 15, "%d requests passed a limit of 30", got)
	stores.WaitLeft(t, r, large, 1_000-2*got) // lost races are refunded
}

// openTolerantCluster returns a Cluster whose masters go on when one is gone, and a store that has
// sent nothing.
func openTolerantCluster(t *testing.T) (*redis.Store, []*redistest.Server) {
	t.Helper()
	r, masters := stores.OpenCluster(t)
	redistest.Tolerate(t, masters)
	return r, masters
}

// errorOf decides for a client and returns the error.
func errorOf(r *redis.Store, p *limiter.Policy, key string) error {
	_, err := r.Decide(context.Background(), []limiter.Check{{Policy: p, Key: limiter.EncodeKey(key), Weight: 1}})
	return err
}

// clientsIn returns keys of clients in slots of a range, no two of a slot.
func clientsIn(r *redis.Store, count int, from, below uint16) (keys []string) {
	seen := map[uint16]bool{}
	for i := 0; len(keys) < count; i++ {
		key := fmt.Sprint("client-", i)
		if slot := r.SlotOf(limiter.EncodeKey(key)); slot >= from && slot < below && !seen[slot] {
			keys, seen[slot] = append(keys, key), true
		}
	}
	return keys
}

func TestCluster_dead_master(t *testing.T) {
	t.Parallel()
	r, masters := openTolerantCluster(t)
	p := storetest.DayPolicy(t, "dead", limiter.GCRA, 100)
	masters[2].Kill()
	const first = 2*redis.ClusterSlots/3 + 1 // of the slots of the master that is gone
	alive, gone := clientsIn(r, 50, 0, first), clientsIn(r, 50, first, redis.ClusterSlots)
	assert.FatalIf(t, errorOf(r, p, gone[0]) == nil, "a dead master decides")
	assert.WaitFor(t, "the masters are known", func() error { return errorOf(r, p, alive[0]) })
	for i := range 50 {
		assert.ErrorIf(t, errorOf(r, p, gone[i]) == nil, "a dead master decides")
		err := errorOf(r, p, alive[i])
		assert.ErrorIf(t, err != nil, "client %d of a master that is there: %v", i, err)
	}
}

func TestCluster_unserved_slot(t *testing.T) {
	t.Parallel()
	r, masters := openTolerantCluster(t)
	p := storetest.DayPolicy(t, "hole", limiter.GCRA, 100)
	slot := int(redis.NewKeyWriter(r.KeyFormat).SlotOf("lost"))
	for _, master := range masters {
		assert.Must(t, master.Client(t).ClusterDelSlots(context.Background(), slot).Err())
	}
	storetest.Decide(t, r, limiter.Check{Policy: p, Key: limiter.EncodeKey("client"), Weight: 1})
	for i := range 30 {
		err := errorOf(r, p, "lost")
		assert.ErrorIf(t, limiter.Kind(err) != "clusterdown", "a slot without a master: %v", err)
		storetest.Decide(t, r, limiter.Check{Policy: p, Key: limiter.EncodeKey(fmt.Sprint("client-", i)), Weight: 1})
	}
}

// TestCluster_down_at_start has a store begin on a Cluster that is down: the outage ends when a master decides, and not
// when the masters are known.
func TestCluster_down_at_start(t *testing.T) {
	t.Parallel()
	masters := redistest.StartCluster(t)
	masters[2].Kill()
	redistest.SetNodeTimeout(t, masters[:2], "1000")
	client := masters[0].Client(t)
	assert.Retry(t, "the cluster is down", func() (again bool, seen any) {
		info := client.ClusterInfo(context.Background()).Val()
		return !strings.Contains(info, "cluster_state:fail"), info
	})
	reported := &stores.Reports{}
	r := stores.OpenStore(t, dial.Connection{Mode: dial.Cluster, Addresses: []string{masters[0].Addr}, Timeout: stores.Patience}, redis.Setup{
		KeyFormat:  limiter.KeyFormat{Prefix: "rl"},
		OnOutage:   func(err error) { reported.Add("outage:" + limiter.Kind(err)) },
		OnRecovery: func(time.Duration) { reported.Add("recovery") },
	})
	p := storetest.DayPolicy(t, "down", limiter.GCRA, 1_000_000)
	assert.Retry(t, "the masters are known", func() (again bool, seen any) {
		_ = errorOf(r, p, "k")
		return !r.Topology.Known.Load(), "not yet"
	})
	for _, key := range []string{"a", "b", "c", "d"} {
		_ = errorOf(r, p, key)
	}
	assert.Equal(t, reported.String(), "outage:clusterdown", "what was reported while it is down")
	masters[2].Run(t)
	assert.Retry(t, "the cluster decides", func() (again bool, seen any) {
		err := errorOf(r, p, "k")
		return err != nil, err
	})
	stores.WaitReported(t, reported, "outage:clusterdown recovery")
}
