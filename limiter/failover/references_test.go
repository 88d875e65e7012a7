package failover

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/decision"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis"
)

// TestRedis_Close_last_use closes a store that a request still needs for a refund: it decides and
// refunds until the request ends, and nothing of that is lost.
func TestRedis_Close_last_use(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	store := openRedis(t, server, 2*time.Second)
	f := New(store, memory.New(), Options{})
	p := refundingDay(t, "closing", limiter.GCRA, 100)
	check := limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 40, Refundable: true}
	redistest.FatalIf(t, !f.Retain(), "the store is closed")
	reserved := storetest.Decide(t, store, check)
	noError(t, store.Close())
	left := storetest.Decide(t, store, check)[0].Result.Remaining
	redistest.ErrorIf(t, left != 20, "%d units remain, want 20", left)
	refundAll(f, reserved, limiter.SourceRedis)
	chargeAll(f, []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 7}}, limiter.SourceRedis)
	f.Release()
	<-store.Uses.Closed
	if _, err := store.Decide(context.Background(), []limiter.Check{check}); !errors.Is(err, decision.ErrClosed) || !errors.Is(err, limiter.ErrUndecided) {
		t.Errorf("a decision after the end: %v", err)
	}
	redistest.ErrorIf(t, f.Retain(), "a closed store is kept open")
	after := storetest.Decide(t, openRedis(t, server, time.Second), limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Peek: true})
	left = after[0].Result.Remaining
	redistest.ErrorIf(t, left != 53, "%d units remain, want 53", left)
}

// TestRedis_Close_drains_its_queue has many refunds and charges in the queue when the owner closes the
// store: it is closed after the last one.
func TestRedis_Close_drains_its_queue(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	store := openRedis(t, server, 10*time.Second)
	f := New(store, memory.New(), Options{})
	p := storetest.DayPolicy(t, "draining", limiter.FixedWindow, 100_000)
	storetest.Decide(t, store, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Peek: true})
	for range 2_000 {
		chargeAll(f, []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 3}}, limiter.SourceRedis)
	}
	noError(t, store.Close())
	after := storetest.Decide(t, openRedis(t, server, time.Second), limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Peek: true})
	left := after[0].Result.Remaining
	redistest.ErrorIf(t, left != 94_000, "%d units remain, want 94000", left)
}

// TestRedis_Close_during_questions closes a store at the moment that a question of an operator is sent. It is
// answered.
func TestRedis_Close_during_questions(t *testing.T) {
	t.Parallel()
	server, p := redistest.Shared(t), storetest.DayPolicy(t, "asked", limiter.GCRA, 100)
	check := limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1}
	for name, ask := range map[string]func(r *redis.Store) error{
		"peek":     func(r *redis.Store) error { return r.Peek(context.Background(), &check) },
		"probe":    func(r *redis.Store) error { return r.Probe(context.Background(), []limiter.Check{check}) },
		"probeAll": func(r *redis.Store) error { return r.ProbeAll(context.Background(), []*limiter.Policy{p}) },
	} {
		t.Run(name, func(t *testing.T) {
			store := openRedis(t, server, 10*time.Second)
			store.Client().AddHook(beforeCommand{"evalsha", sync.OnceFunc(func() {
				uses := store.Uses.Count.Load()
				go store.Close() //nolint:errcheck // it waits for the question
				for store.Uses.Count.Load() == uses {
					runtime.Gosched()
				}
			})})
			err := ask(store)
			redistest.ErrorIf(t, err != nil, "%+v", err)
			<-store.Uses.Closed
			err = ask(store)
			redistest.ErrorIf(t, !errors.Is(err, decision.ErrClosed), "a question after the end: %v", err)
		})
	}
}
