package limiter

import (
	"context"
	"errors"
	"runtime"
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

// TestAwait_timer has calls change hands the moment their callers leave them, while those callers
// are still returning: the next owner's timeout must pass all the same. More threads than processors
// make the moment between leaving and returning a long one now and then.
func TestAwait_timer(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(16))
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	patience, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	end := time.Now().Add(time.Second)
	var pairs sync.WaitGroup
	for range 8 {
		pairs.Go(func() {
			c := newCall(opTake, nil)
			for time.Now().Before(end) {
				former := make(chan error, 1)
				c.state.Store(callQueued)
				go func() { former <- await(gone, c, time.Hour) }()
				for c.state.Load() != callLeft {
					runtime.Gosched()
				}
				c.state.Store(callQueued) // as the pool hands it to its next owner
				if err := await(patience, c, time.Microsecond); !errors.Is(err, errUnsent) {
					t.Errorf("got %v, want a timeout: the former owner has stopped the timer", err)
					return
				}
				if err := <-former; !errors.Is(err, context.Canceled) {
					t.Errorf("the former owner got %v", err)
				}
			}
		})
	}
	pairs.Wait()
}
