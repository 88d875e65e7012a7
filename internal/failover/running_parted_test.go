package failover

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/waiting"
)

// TestRunning_parted parts one of two nodes from Redis again and again, for less than the node timeout, while both run as
// many requests as they may. Never more run at once than the limit, whether one batch is in flight at a time, on a short
// link, or several, on a long one.
func TestRunning_parted(t *testing.T) {
	t.Parallel()
	for _, roundTrip := range []time.Duration{0, 5 * time.Millisecond} {
		for _, waits := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, they wait: %t", roundTrip, waits), func(t *testing.T) {
				t.Parallel()
				playParted(t, roundTrip, waits)
			})
		}
	}
}

func playParted(t *testing.T, roundTrip time.Duration, waits bool) {
	t.Helper()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	proxy.Delay(roundTrip)
	const limit = 10
	p := storetest.NewPolicy(t, limiter.Settings{Name: "running", MaxConcurrent: limit, NodeTimeout: stores.Patience, Waits: waits})
	ctx, end := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	running := new(peak)
	for _, addr := range []string{proxy.Addr, server.Addr} {
		o := dial.Connection{Addresses: []string{addr}, Timeout: time.Second}
		f := New(stores.OpenStore(t, o, redis.Setup{KeyFormat: limiter.KeyFormat{Prefix: "rl"}}), memory.New(), Behavior{})
		ask := askToRun(f, p, waits)
		for range 30 {
			clients.Go(func() {
				for ctx.Err() == nil {
					runOnce(ctx, running, ask)
				}
			})
		}
	}
	for i := range assert.Rounds(12, 400) {
		<-time.After(time.Duration(50+rand.IntN(100)) * time.Millisecond)
		proxy.Part()
		part := time.Duration(rand.IntN(60)) * time.Millisecond // of some parts the breaker does not notice
		if i%6 == 5 {
			part = time.Second
		}
		<-time.After(part)
		proxy.Join()
	}
	assert.Retry(t, "as many ran at once as may", func() (again bool, seen any) { // which takes a busy machine longer
		most := running.highest()
		return most < limit, most
	})
	end()
	clients.Wait()
	assert.ErrorIf(t, running.most != limit, "%d requests ran at once, want %d", running.most, limit)
}

// askToRun returns a function that asks a store for a place. It returns a function that ends the request, or nil.
func askToRun(f *Store, p *limiter.Policy, waits bool) func(ctx context.Context) (end func()) {
	if waits {
		q := NewQueue(f, waiting.Environment{})
		return func(ctx context.Context) func() {
			place, err := q.Join(waitingRequest(p)).Wait(ctx)
			if err != nil {
				return nil
			}
			return place.End
		}
	}
	return func(context.Context) func() {
		checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1}}
		_, err := f.DecideIn(context.Background(), limiter.FailClosed, checks)
		if err != nil || !limiter.Allowed(checks) {
			return nil
		}
		return func() { f.EndRunning(checks) }
	}
}

// waitingRequest returns a request that runs only where Redis lets it.
func waitingRequest(p *limiter.Policy) waiting.Request {
	r := waits(p, 1)
	r.FailMode = limiter.FailClosed
	return r
}

// runOnce asks for a place and runs a request on it for a while. Without one it rests.
func runOnce(ctx context.Context, running *peak, ask func(ctx context.Context) (end func())) {
	end := ask(ctx)
	if end != nil {
		running.add(1)
	}
	<-time.After(time.Duration(rand.IntN(20)) * time.Millisecond)
	if end != nil {
		running.add(-1)
		end()
	}
}
