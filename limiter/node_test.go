package limiter

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

func TestNode_wrong_type(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	r := openRedis(t, server, 5*time.Second)
	at := clock.Now()
	r.topology.anyNode.breaker.now = func() clock.Moment { return at }
	p := dayPolicy(t, "mixed", FixedWindow, 100)
	if err := server.Client(t).RPush(context.Background(), r.RedisKey(p, EncodeKey("bad")), "x").Err(); err != nil {
		t.Fatal(err)
	}
	for range 2 * failuresInARow {
		at = at.Add(failuresSpan)
		if _, err := r.Decide(context.Background(), []Check{{Policy: p, Key: EncodeKey("bad"), Weight: 1}}); Kind(err) != "value" {
			t.Fatalf("the client with the bad key: %v", err)
		}
	}
	decide(t, r, Check{Policy: p, Key: EncodeKey("good"), Weight: 1})
}

// TestNode_refund_postponed has one of two refunds postponed, and the second try fail. The probe needs
// the policies of what was left.
func TestNode_refund_postponed(t *testing.T) {
	t.Parallel()
	p, q := dayPolicy(t, "done", SlidingWindowLog, 100), dayPolicy(t, "postponed", SlidingWindowLog, 100)
	opened := make(chan struct{})
	n := &node{failed: func() {}, opened: func() { close(opened) }}
	n.breaker = breaker{now: clock.Now, onOpen: func(error) {}}
	tries := 0
	n.batcher.send = func(_ context.Context, calls []*call) bool {
		if tries++; tries == 1 {
			calls[0].checks[1].Result.RetryAfter = 1
		} else {
			calls[0].err = &UndecidedError{Kind: "refused", Err: errors.New("down")}
		}
		return true
	}
	n.refund(0, []Check{{Policy: p, Key: EncodeKey("k"), Weight: 1}, {Policy: q, Key: EncodeKey("k"), Weight: 1}})
	<-opened
	if got := n.cause.Load().policies; len(got) != 1 || got[0] != q {
		t.Errorf("policies %v, want the postponed one alone", got)
	}
}
