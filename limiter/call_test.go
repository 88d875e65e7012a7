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
	r := openRedis(t, server, 50*time.Millisecond)
	p := dayPolicy(t, "hung", GCRA, 1_000)
	decide(t, r, Check{Policy: p, Key: EncodeKey("k"), Weight: 1})
	server.Pause(t)
	defer server.Resume(t)
	var group sync.WaitGroup
	for range 64 {
		group.Go(func() {
			for range 3 {
				_, err := r.Decide(context.Background(), []Check{{Policy: p, Key: EncodeKey("k"), Weight: 1}})
				if kind := Kind(err); kind != "timeout" && kind != "breaker" {
					t.Errorf("error %v of kind %s", err, Kind(err))
				}
			}
		})
	}
	group.Wait()
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
	_, err := r.Decide(ctx, []Check{{Policy: p, Key: EncodeKey("k"), Weight: 1}})
	if !errors.Is(err, context.Canceled) || errors.Is(err, ErrUndecided) {
		t.Error(err)
	}
}
