package failover

import (
	"context"
	"errors"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/queue"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis/health"
)

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
