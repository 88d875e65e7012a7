package failover

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
)

func TestRedis_Decide_timeout(t *testing.T) {
	server := redistest.Start(t)
	r := openRedis(t, server, 500*time.Millisecond)
	p := storetest.DayPolicy(t, "hung", limiter.GCRA, 1_000)
	storetest.Decide(t, r, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1})
	server.Pause(t)
	defer server.Resume(t)
	inParallel(64, func(_ int) {
		for range 3 {
			_, err := r.Decide(context.Background(), []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1}})
			if kind := limiter.Kind(err); kind != "timeout" && kind != "breaker" {
				t.Errorf("error %v of kind %s", err, limiter.Kind(err))
			}
		}
	})
}

func TestRedis_Decide_canceled(t *testing.T) {
	server := redistest.Start(t)
	r := openRedis(t, server, 300*time.Millisecond)
	p := storetest.DayPolicy(t, "gone", limiter.GCRA, 1_000)
	storetest.Decide(t, r, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1})
	server.Pause(t)
	defer server.Resume(t)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err := r.Decide(ctx, []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1}})
	if !errors.Is(err, context.Canceled) || errors.Is(err, limiter.ErrUndecided) {
		t.Error(err)
	}
}
