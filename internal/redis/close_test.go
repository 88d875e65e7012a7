package redis_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/lease"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// TestRedis_Close_drains_its_queue has many refunds and charges in the queue when the owner closes the
// store: it is closed after the last one.
func TestRedis_Close_drains_its_queue(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	store := stores.Open(t, server)
	p := storetest.DayPolicy(t, "draining", limiter.FixedWindow, 100_000)
	storetest.Decide(t, store, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Peek: true})
	for range 2_000 {
		storetest.ChargeIn(store, []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 3}})
	}
	assert.Must(t, store.Close())
	after := storetest.Decide(t, stores.Open(t, server), limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Peek: true})
	assert.Equal(t, after[0].Result.Remaining, 94_000, "what remains")
}

// TestRedis_Close_during_questions closes a store at the moment that a question of an operator is sent. It is
// answered.
func TestRedis_Close_during_questions(t *testing.T) {
	t.Parallel()
	server, p := redistest.Shared(t), storetest.DayPolicy(t, "asked", limiter.GCRA, 100)
	check := limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1}
	for name, ask := range map[string]func(r *redis.Store) error{
		"peek": func(r *redis.Store) error { return r.Peek(context.Background(), &check) },
		"lease": func(r *redis.Store) error {
			_, err := r.Lease(context.Background(), &check, lease.Question{}, func(*limiter.Check, kernel.Lease) {})
			return err
		},
		"probe": func(r *redis.Store) error { return r.Probe(context.Background(), []limiter.Check{check}) },
		"probe each": func(r *redis.Store) error {
			_, err := r.ProbeEach(context.Background(), []*limiter.Policy{p})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := stores.Open(t, server)
			store.Client().AddHook(redistest.BeforeCommand{Name: "evalsha", Do: sync.OnceFunc(func() {
				uses := store.Uses.Count.Load()
				go store.Close() //nolint:errcheck // it waits for the question
				for store.Uses.Count.Load() == uses {
					runtime.Gosched()
				}
			})})
			err := ask(store)
			assert.ErrorIf(t, err != nil, "%+v", err)
			<-store.Uses.Closed
			err = ask(store)
			assert.ErrorIf(t, !errors.Is(err, limiter.ErrClosed), "a question after the end: %v", err)
		})
	}
}

// TestRedis_closed has a closed store do what no request waits for: it fails at once.
func TestRedis_closed(t *testing.T) {
	t.Parallel()
	store := stores.Open(t, redistest.Shared(t))
	assert.Must(t, store.Close())
	check := limiter.Check{Policy: storetest.RefundingPolicy(t, "late", limiter.GCRA, 100), Key: limiter.EncodeKey("k"), Weight: 1, Refundable: true}
	var ends []error
	ended := func(e redis.Ended) { ends = append(ends, e.Err()) }
	store.SettleThen(&check, limiter.Change{Units: -1}, false, ended)
	store.LeaseAsync(&check, lease.Question{}, ended)
	store.PeekAsync(&check, func(*limiter.Check) { t.Error("a closed store has peeked") })
	_, err := store.Command(t.Context(), 0, "ping")
	for _, err := range append(ends, err) {
		assert.ErrorIf(t, !errors.Is(err, limiter.ErrClosed), "it ends with %v", err)
	}
	assert.Equal(t, len(ends), 2, "the number of ends")
}
