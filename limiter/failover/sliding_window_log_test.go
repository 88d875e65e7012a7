package failover

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/queue"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/wire"
)

func TestSlidingWindowLog_expiry(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	const entries = 40
	p := storetest.NewPolicy(t, limiter.Settings{Name: "edges", Algorithm: limiter.SlidingWindowLog, Limit: entries, Window: time.Minute})
	for _, s := range []*testStore{memoryStore(), redisStore(t, server)} {
		for i := range int64(entries) {
			play(t, s, storetest.Epoch+i, p, 1)
		}
		for dead := range int64(entries + 1) {
			now := storetest.Epoch + time.Minute.Microseconds() + dead - 1
			if got := play(t, s, now, p, 0).Remaining; got != dead {
				t.Errorf("%s: with %d entries dead, %d units remain", s.name, dead, got)
			}
			want := time.Duration(0)
			if dead < entries {
				want = time.Microsecond
			}
			if got := play(t, s, now, p, dead+1); dead < entries && got.RetryAfter != want {
				t.Errorf("%s: with %d entries dead, one unit more waits %v, want %v", s.name, dead, got.RetryAfter, want)
			}
		}
	}
}

// TestSlidingWindowLog_modulus takes so much that the running totals in Redis pass
// 2^40 several times.
func TestSlidingWindowLog_modulus(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	p := storetest.NewPolicy(t, limiter.Settings{Name: "wrap", Algorithm: limiter.SlidingWindowLog, Limit: kernel.MaxLogLimit, Window: time.Millisecond})
	stores := []*testStore{memoryStore(), redisStore(t, server)}
	total := int64(0)
	for i := range int64(40) {
		now, weight := storetest.Epoch+i*400, kernel.MaxLogLimit/4+i
		for _, weight := range []int64{kernel.MaxLogLimit, weight} { // the first is denied by what is live
			want := play(t, stores[0], now, p, weight)
			if got := play(t, stores[1], now, p, weight); got != want {
				t.Fatalf("take %d: Redis says %+v, the process %+v", i, got, want)
			}
			if want.Passes() {
				total += weight
			}
		}
	}
	if total < 4<<40 {
		t.Errorf("only %d units were taken", total)
	}
}

// TestRedis_Refund_long_tail moves up as many later entries as a refund may rewrite.
func TestRedis_Refund_long_tail(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	r, client := openRedis(t, server, 5*time.Second), server.Client(t)
	p := refundingDay(t, "log", limiter.SlidingWindowLog, 10_000)
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

// TestSlidingWindowLog_refund_tail refunds entries around the bound, in both stores: one with a
// thousand entries after it is removed, one with more stays.
func TestSlidingWindowLog_refund_tail(t *testing.T) {
	t.Parallel()
	p := storetest.NewPolicy(t, limiter.Settings{Name: "tail", Algorithm: limiter.SlidingWindowLog, Limit: 100_000, Window: time.Hour})
	for _, s := range []*testStore{memoryStore(), redisStore(t, redistest.Shared(t))} {
		t.Run(s.name, func(t *testing.T) {
			var reserved [][]limiter.Check
			for i := range 1100 {
				if i < 60 || i == 99 { // from 60 on 40 of one instant, of two weights
					s.set(storetest.Epoch + int64(i))
				}
				if i == 100 {
					s.set(storetest.Epoch + 1_000)
				}
				checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: int64(1 + i%2), Refundable: true}}
				s.decide(t, checks)
				reserved = append(reserved, checks)
			}
			remaining := play(t, s, storetest.Epoch+1_000, p, 0).Remaining
			for _, refund := range []struct {
				at, units int64
				why       string
			}{
				{10, 0, "1089 entries follow"}, {98, 0, "1001 follow, and one of another weight"},
				{99, 2, "1000 follow"}, {99, 0, "it was refunded"}, {98, 1, "1000 follow"},
				{1099, 2, "the last"}, {500, 1, "of an instant that has many"},
			} {
				s.refund(reserved[refund.at])
				remaining += refund.units
				if got := play(t, s, storetest.Epoch+1_000, p, 0).Remaining; got != remaining {
					t.Fatalf("entry %d (%s): %d remain, want %d", refund.at, refund.why, got, remaining)
				}
			}
		})
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

// TestSlidingWindowLog_charge_without_room charges a log that can count no further unit. Once the
// units before are over, the entry without any leaves the quota as good as new.
func TestSlidingWindowLog_charge_without_room(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	p := storetest.NewPolicy(t, limiter.Settings{Algorithm: limiter.SlidingWindowLog, Limit: 5, Window: 10 * time.Second})
	for _, s := range []*testStore{memoryStore(), redisStore(t, server)} {
		charge := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: limiter.MaxCharge}}
		s.set(storetest.Epoch)
		s.charge(charge)
		s.set(storetest.Epoch + 6*storetest.Sec)
		s.charge(charge)
		if got, want := play(t, s, storetest.Epoch+11*storetest.Sec, p, 0), (limiter.Result{Remaining: 5}); got != want {
			t.Errorf("%s: %+v, want %+v", s.name, got, want)
		}
	}
}
