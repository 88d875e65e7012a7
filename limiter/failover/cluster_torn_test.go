package failover

import (
	"context"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/queue"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/wire"
)

// A slot is on its way to another master. The state of one policy has moved, another policy has none: a
// script of both is refused with TRYAGAIN.
func TestCluster_sends_a_torn_batch_call_by_call(t *testing.T) {
	t.Parallel()
	r, masters := openCluster(t)
	ctx := t.Context()
	moved, fresh := storetest.DayPolicy(t, "moved", limiter.SlidingWindowCounter, 10), storetest.DayPolicy(t, "fresh", limiter.SlidingWindowLog, 10)
	check := func(p *limiter.Policy) []limiter.Check {
		return []limiter.Check{{Policy: p, Key: limiter.EncodeKey("same"), Weight: 1}}
	}
	slot := r.SlotOf(limiter.EncodeKey("same"))
	source := int(slot) * len(masters) / 16384
	target := (source + 1) % len(masters)
	for _, state := range []struct {
		of, other int
		word      string
	}{{target, source, "importing"}, {source, target, "migrating"}} {
		id := masters[state.other].ClusterID(t)
		noError(t, masters[state.of].Client(t).Do(ctx, "cluster", "setslot", slot, state.word, id).Err())
	}
	if got := storetest.Decide(t, r, check(moved)...)[0].Result.Remaining; got != 9 { // made on the target, after an ASK
		t.Fatalf("%d remain after one of 10", got)
	}

	calls := []*queue.Call{queue.NewCall(wire.OpTake, check(moved)), queue.NewCall(wire.OpTake, check(fresh)), queue.NewCall(wire.OpTake, check(moved))}
	for _, c := range calls {
		c.Slot = slot
	}
	if !r.Send(context.Background(), r.Topology.To(slot), calls) {
		t.Error("the batch counts as unanswered")
	}
	for i, want := range []int64{8, 9, 7} {
		if calls[i].Err != nil || calls[i].Checks[0].Result.Remaining != want {
			t.Errorf("call %d: %d remain, %v; want %d", i, calls[i].Checks[0].Result.Remaining, calls[i].Err, want)
		}
	}

	// A call that leaves alone is sent again where its calendar periods were not around Redis's time.
	calendar := storetest.NewPolicy(t, limiter.Settings{Name: "calendar", Calendar: "day", Limit: 10})
	n := r.Topology.To(slot)
	n.Clock.Fix(400 * 24 * time.Hour)
	calls = []*queue.Call{queue.NewCall(wire.OpTake, check(moved)), queue.NewCall(wire.OpTake, check(calendar))}
	for _, c := range calls {
		c.Slot = slot
	}
	if !r.Send(context.Background(), n, calls) {
		t.Error("the batch with a calendar counts as unanswered")
	}
	for i, want := range []int64{6, 9} {
		if calls[i].Err != nil || calls[i].Checks[0].Result.Remaining != want {
			t.Errorf("call %d beside a calendar: %d remain, %v; want %d", i, calls[i].Checks[0].Result.Remaining, calls[i].Err, want)
		}
	}

	both := append(check(moved), check(storetest.DayPolicy(t, "later", limiter.GCRA, 10))...)
	if _, err := r.Decide(ctx, both); limiter.Kind(err) != "tryagain" {
		t.Errorf("a request with keys on both masters: %v, want tryagain", err)
	}
}
