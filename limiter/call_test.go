package limiter

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

func TestRedis_Decide_timeout(t *testing.T) {
	server := redistest.Start(t)
	const timeout, slack = 50 * time.Millisecond, 100 * time.Millisecond
	r := openRedis(t, server, timeout)
	p := dayPolicy(t, "hung", GCRA, 1_000)
	decide(t, r, Check{Policy: p, Key: EncodeKey("k"), Weight: 1})
	server.Pause(t)
	defer server.Resume(t)
	stalled := redistest.WatchStalls(t)
	var mu sync.Mutex
	var slowest time.Duration
	var group sync.WaitGroup
	for range 64 {
		group.Go(func() {
			for range 3 {
				start := time.Now()
				_, err := r.Decide(context.Background(), []Check{{Policy: p, Key: EncodeKey("k"), Weight: 1}})
				took := time.Since(start)
				mu.Lock()
				slowest = max(slowest, took)
				mu.Unlock()
				if kind := Kind(err); kind != "timeout" && kind != "breaker" {
					t.Errorf("error %v of kind %s", err, Kind(err))
				}
			}
		})
	}
	group.Wait()
	if stall := stalled(); slowest > timeout+slack+stall {
		t.Errorf("the slowest waited %v (the machine stalled for %v)", slowest, stall)
	}
}

func TestRedis_Decide_canceled(t *testing.T) {
	server := redistest.Start(t)
	r := openRedis(t, server, 300*time.Millisecond)
	p := dayPolicy(t, "gone", GCRA, 1_000)
	decide(t, r, Check{Policy: p, Key: EncodeKey("k"), Weight: 1})
	server.Pause(t)
	defer server.Resume(t)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	start := time.Now()
	_, err := r.Decide(ctx, []Check{{Policy: p, Key: EncodeKey("k"), Weight: 1}})
	if !errors.Is(err, context.Canceled) || errors.Is(err, ErrUndecided) || time.Since(start) > time.Second {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
}
