package redis_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// A slot is on its way to another master. The state of one policy has moved, another policy has none: a
// script of both is refused with TRYAGAIN.
func TestCluster_sends_a_torn_batch_call_by_call(t *testing.T) {
	t.Parallel()
	r, masters := stores.OpenCluster(t)
	ctx := t.Context()
	moved, fresh := storetest.DayPolicy(t, "moved", limiter.SlidingWindowCounter, 10), storetest.DayPolicy(t, "fresh", limiter.SlidingWindowLog, 10)
	check := func(p *limiter.Policy) []limiter.Check {
		return []limiter.Check{{Policy: p, Key: limiter.EncodeKey("same"), Weight: 1}}
	}
	slot := r.SlotOf(limiter.EncodeKey("same"))
	source := int(slot) * len(masters) / 16384
	target := (source + 1) % len(masters)
	redistest.StartMove(t, masters[source], masters[target], slot)
	if got := storetest.Decide(t, r, check(moved)...)[0].Result.Remaining; got != 9 { // made on the target, after an ASK
		t.Fatalf("%d remain after one of 10", got)
	}

	send := func(n *redis.Node, policies []*limiter.Policy, remaining ...int64) {
		t.Helper()
		var calls []*redis.Call
		for _, p := range policies {
			c := redis.NewCall(redis.OpTake, check(p))
			c.Slot = slot
			calls = append(calls, c)
		}
		assert.ErrorIf(t, !r.Send(context.Background(), n, calls), "the batch counts as unanswered")
		for i, c := range calls {
			assert.ErrorIf(t, c.Err != nil || c.Checks[0].Result.Remaining != remaining[i],
				"call %d of %s: %d remain, %v; want %d", i, policies[i].Name(), c.Checks[0].Result.Remaining, c.Err, remaining[i])
		}
	}
	n := r.Topology.To(slot)
	send(n, []*limiter.Policy{moved, fresh, moved}, 8, 9, 7)
	// A call that leaves alone is sent again where its calendar periods were not around Redis's time.
	calendar := storetest.NewPolicy(t, limiter.Settings{Name: "calendar", Calendar: "day", Limit: 10})
	storetest.SetAhead(&n.Clock, 400*24*time.Hour)
	send(n, []*limiter.Policy{moved, calendar}, 6, 9)

	both := append(check(moved), check(storetest.DayPolicy(t, "later", limiter.GCRA, 10))...)
	_, err := r.Decide(ctx, both)
	assert.ErrorIf(t, limiter.Kind(err) != "tryagain", "a request with keys on both masters: %v, want tryagain", err)
}
