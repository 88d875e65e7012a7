package redis_test

import (
	"fmt"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// TestCluster_endpoints uses Clusters whose nodes announce no endpoint, and those that prefer names and have none: a
// client asks at the host that told it, and follows slots that move or are moving.
func TestCluster_endpoints(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"unknown-endpoint", "hostname"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			masters := redistest.StartCluster(t)
			for _, m := range masters {
				if m.Client(t).ConfigSet(t.Context(), "cluster-preferred-endpoint-type", kind).Err() != nil {
					t.Skip("this server announces addresses alone")
				}
			}
			r := stores.OpenClusterWithin(t, masters, stores.Patience)
			p := storetest.DayPolicy(t, "endpoints", limiter.SlidingWindowCounter, 7)
			spend := func(key string, remaining int64) {
				t.Helper()
				got := storetest.Decide(t, r, limiter.Check{Policy: p, Key: limiter.EncodeKey(key), Weight: 1})
				assert.Equal(t, got[0].Result.Remaining, remaining, "what remains of %s", key)
			}
			for i := range 20 {
				spend(fmt.Sprint("client-", i), 6)
			}
			assert.Equal(t, len(r.Topology.Nodes()), len(masters), "the number of masters in use")
			for _, n := range r.Topology.Nodes() {
				assert.ErrorIf(t, n.Breaker.Open(), "a breaker has opened")
			}

			slot := r.SlotOf(limiter.EncodeKey("moved"))
			from := int(slot) * len(masters) / redis.ClusterSlots
			spend("moved", 6)
			redistest.MoveSlot(t, masters, slot, from, (from+1)%len(masters))
			spend("moved", 5)

			slot = r.SlotOf(limiter.EncodeKey("moving"))
			from = int(slot) * len(masters) / redis.ClusterSlots
			spend("moving", 6)
			redistest.StartMove(t, masters[from], masters[(from+1)%len(masters)], slot, r.RedisKey(p, limiter.EncodeKey("moving")))
			spend("moving", 5)

			found, err := r.ResetAll(t.Context(), p.Name())
			assert.ErrorIf(t, err != nil || found != 22, "%d keys are reset, %v", found, err)
		})
	}
}

// TestCluster_endpoints_at_once has a store follow redirections before it knows the masters.
func TestCluster_endpoints_at_once(t *testing.T) {
	t.Parallel()
	masters := redistest.StartCluster(t)
	for _, m := range masters {
		if m.Client(t).ConfigSet(t.Context(), "cluster-preferred-endpoint-type", "unknown-endpoint").Err() != nil {
			t.Skip("this server announces addresses alone")
		}
	}
	client := assert.NoError(dial.New(dial.Connection{Mode: dial.Cluster, Addresses: []string{masters[0].Addr}, Timeout: stores.Patience}))(t)
	r := redis.New(client, redis.Setup{KeyFormat: limiter.KeyFormat{Prefix: "rl"}})
	t.Cleanup(func() { _ = r.Close() })
	assert.ErrorIf(t, !dial.IsNil(client.Do(t.Context(), "get", "k").Err()), "the client does not know the masters")
	slot := r.SlotOf(limiter.EncodeKey("moved"))
	from := int(slot) * len(masters) / redis.ClusterSlots
	redistest.MoveSlot(t, masters, slot, from, (from+1)%len(masters)) // the client has not heard of it
	p := storetest.DayPolicy(t, "at-once", limiter.GCRA, 7)
	var calls []*redis.Call
	for _, key := range []string{"moved", "a", "b", "c"} {
		c := redis.NewCall(redis.OpTake, []limiter.Check{{Policy: p, Key: limiter.EncodeKey(key), Weight: 1}})
		c.Slot = r.SlotOf(limiter.EncodeKey(key))
		calls = append(calls, c)
	}
	assert.ErrorIf(t, !r.Send(t.Context(), r.Topology.AnyNode, calls), "the batch counts as unanswered")
	for _, c := range calls {
		assert.ErrorIf(t, c.Err != nil || c.Checks[0].Result.Remaining != 6, "%d remain, %v", c.Checks[0].Result.Remaining, c.Err)
	}
}
