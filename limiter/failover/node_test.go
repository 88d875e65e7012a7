package failover

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/queue"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis/health"
)

func TestNode_wrong_type(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	r := openRedis(t, server, 5*time.Second)
	at := clock.Now()
	r.Topology.AnyNode.Breaker.Now = func() clock.Moment { return at }
	p := storetest.DayPolicy(t, "mixed", limiter.FixedWindow, 100)
	noError(t, server.Client(t).RPush(context.Background(), r.RedisKey(p, limiter.EncodeKey("bad")), "x").Err())
	for range 2 * health.FailuresInARow {
		at = at.Add(health.FailuresSpan)
		if _, err := r.Decide(context.Background(), []limiter.Check{{Policy: p, Key: limiter.EncodeKey("bad"), Weight: 1}}); limiter.Kind(err) != "value" {
			t.Fatalf("the client with the bad key: %v", err)
		}
	}
	storetest.Decide(t, r, limiter.Check{Policy: p, Key: limiter.EncodeKey("good"), Weight: 1})
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
