package failover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/queue"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/wire"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis/health"
)

// TestRedis_Refund_long_tail moves up as many later entries as a refund may rewrite.
func TestRedis_Refund_long_tail(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	r, client := openRedis(t, server, 5*time.Second), server.Client(t)
	p := storetest.DayPolicy(t, "log", limiter.SlidingWindowLog, 10_000)
	if err := p.AllowRefunds(); err != nil {
		t.Fatal(err)
	}
	const later = kernel.LogRewritten
	first := storetest.Decide(t, r, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1, Refundable: true})
	for range later / 100 {
		var calls []*queue.Call
		for range 100 {
			calls = append(calls, queue.NewCall(wire.OpTake, []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1}}))
		}
		r.Send(context.Background(), r.Topology.AnyNode, calls)
	}
	storetest.RefundIn(r, first)
	redistest.WaitFor(t, "the entry is gone", func() error {
		n, err := client.LLen(t.Context(), r.RedisKey(p, limiter.EncodeKey("k"))).Result()
		if err == nil && n != later {
			err = fmt.Errorf("%d entries", n)
		}
		return err
	})
	entries := client.LRange(t.Context(), r.RedisKey(p, limiter.EncodeKey("k")), 0, -1).Val()
	for i, entry := range entries {
		if total := int(entry[9])<<8 | int(entry[10]); total != i+1 {
			t.Fatalf("entry %d of %d has the total %d", i, len(entries), total)
		}
	}
	if ttl := client.PTTL(t.Context(), r.RedisKey(p, limiter.EncodeKey("k"))).Val(); ttl <= 0 {
		t.Errorf("the list has a TTL of %v", ttl)
	}
	if left := storetest.Decide(t, r, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Peek: true})[0].Result.Remaining; left != 10_000-later {
		t.Errorf("%d remain, want %d", left, 10_000-later)
	}
}

// TestSlidingWindowLog_refund_run sends refunds that together rewrite more than one run may.
func TestSlidingWindowLog_refund_run(t *testing.T) {
	t.Parallel()
	r := openRedis(t, redistest.Shared(t), 10*time.Second)
	p := storetest.DayPolicy(t, "run", limiter.SlidingWindowLog, 100_000)
	const refunds, later = 20, 400
	var calls []*queue.Call
	for i := range refunds + later {
		c := queue.NewCall(wire.OpTakeRefundable, []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1}})
		if r.Send(context.Background(), r.Topology.AnyNode, []*queue.Call{c}); c.Err != nil {
			t.Fatal(c.Err)
		}
		if i < refunds {
			calls = append(calls, newRefund(c.Checks...))
		}
	}
	for runs := 1; len(calls) > 0; runs++ {
		r.Send(context.Background(), r.Topology.AnyNode, calls)
		before := len(calls)
		calls = slices.DeleteFunc(calls, func(c *queue.Call) bool { return !c.IsPostponed() })
		if done := before - len(calls); done < 1 || done > 2 {
			t.Fatalf("run %d made %d refunds of about %d entries each, and may rewrite 1000", runs, done, later)
		}
	}
	if got := storetest.Decide(t, r, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Peek: true})[0].Result.Remaining; got != 100_000-later {
		t.Errorf("%d remain, want %d", got, 100_000-later)
	}
}

// TestRedis_Refund_lifetime has a state with a serial, and one with a hole, live as long as a full bucket drains after
// every take, and others as long as they drain.
func TestRedis_Refund_lifetime(t *testing.T) {
	server := redistest.Shared(t)
	client, s := server.Client(t), redisStore(t, server)
	p := storetest.NewPolicy(t, limiter.Settings{Name: "lifetime", Algorithm: limiter.GCRA, Limit: 1, Window: time.Second, Burst: 10})
	const grace = time.Hour // of the test's clock
	holds := func(size int64, lives time.Duration) {
		t.Helper()
		name := "t:{k}:lifetime:g1s"
		got, ttl := client.StrLen(t.Context(), name).Val(), client.PTTL(t.Context(), name).Val()-grace
		if got != size || ttl > lives || ttl < lives-500*time.Millisecond {
			t.Errorf("%d bytes that live for %v; want %d and %v", got, ttl, size, lives)
		}
	}
	reserved := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 2, Refundable: true}}
	s.Play(t, storetest.Epoch, p, 1)
	holds(16, time.Second)
	s.Request(t, reserved...)
	holds(24, 10*time.Second)
	s.Play(t, storetest.Epoch, p, 1)
	holds(24, 10*time.Second)
	s.Charge([]limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 10}})
	holds(24, 14*time.Second)
	s.Refund(reserved)
	holds(40, 14*time.Second)
}

// TestNode_refund_postponed has one of two refunds postponed, and the second try fail. The probe needs
// the policies of what was left.
func TestNode_refund_postponed(t *testing.T) {
	t.Parallel()
	p, q := storetest.DayPolicy(t, "done", limiter.SlidingWindowLog, 100), storetest.DayPolicy(t, "postponed", limiter.SlidingWindowLog, 100)
	opened := make(chan struct{})
	n := &redis.Node{Failed: func() {}, Opened: func() { close(opened) }}
	n.Breaker = health.Breaker{Now: clock.Now, OnOpen: func(error) {}}
	tries := 0
	n.Batcher.Send = func(_ context.Context, calls []*queue.Call) bool {
		if tries++; tries == 1 {
			calls[0].Settlements[1].Postponed = true
		} else {
			calls[0].Err = &limiter.UndecidedError{Kind: "refused", Err: errors.New("down")}
		}
		return true
	}
	n.Refund(0, []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1}, {Policy: q, Key: limiter.EncodeKey("k"), Weight: 1}})
	<-opened
	if got := n.Cause.Load().Policies; len(got) != 1 || got[0] != q {
		t.Errorf("policies %v, want the postponed one alone", got)
	}
}
