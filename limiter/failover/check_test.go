package failover

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
)

// TestAllow_and_Peek take one unit of a policy by default, and none, on every kind of store.
func TestAllow_and_Peek(t *testing.T) {
	server := redistest.Shared(t)
	for name, store := range map[string]limiter.Store{
		"memory": memory.New(), "redis": openRedis(t, server, 10*time.Second),
		"failover": New(openRedis(t, server, 10*time.Second), memory.New(), Options{}),
	} {
		p := storetest.NewPolicy(t, limiter.Settings{Name: "allow-" + name, Limit: 2, Window: windowOfBothClocks(0)})
		var got []bool
		for range 3 {
			result, err := limiter.Allow(t.Context(), store, p, "k")
			redistest.FatalIf(t, err != nil, "%+v %+v", name, err)
			got = append(got, result.Passes())
		}
		redistest.ErrorIf(t, !got[0] || !got[1] || got[2], "%s: passes are %v; want two of three", name, got)
		left, err := limiter.Peek(t.Context(), store, p, "k")
		redistest.ErrorIf(t, err != nil || left.Remaining != 0 || !left.Passes(), "%s: after all: %+v, %v", name, left, err)
		for range 2 {
			wantRemaining(t, store, p, "other", 2)
		}
	}
}

// TestStore_Decide_invalid sends checks that no store can decide: no store charges any of them.
func TestStore_Decide_invalid(t *testing.T) {
	p := storetest.NewPolicy(t, limiter.Settings{Name: "p", Limit: 2, Window: time.Hour})
	twin := storetest.NewPolicy(t, limiter.Settings{Name: "p", Limit: 9, Window: time.Hour})
	good := limiter.Check{Policy: p, Key: limiter.EncodeKey("k")}
	shared := openRedis(t, redistest.Shared(t), 10*time.Second)
	for name, store := range map[string]limiter.Store{
		"memory": memory.New(), "redis": shared,
		"failover": New(shared, memory.New(), Options{DenyAge: time.Second}),
		"local":    New(nil, memory.New(), Options{}),
	} {
		many := []limiter.Check{good}
		for i := range 20 {
			many = append(many, limiter.Check{Policy: p, Key: limiter.EncodeKey(fmt.Sprint("many-", i))})
		}
		for problem, checks := range map[string][]limiter.Check{
			"numbers 0 and 21 take":    append(many, good),
			"there is none":            {},
			"number 1 has no Policy":   {good, {Key: limiter.EncodeKey("k")}},
			"number 1 has Weight -1":   {good, {Policy: p, Key: limiter.EncodeKey("l"), Weight: -1}},
			"numbers 0 and 1 take":     {good, good},
			"numbers 1 and 2 take":     {{Policy: p, Key: limiter.EncodeKey("l")}, good, {Policy: twin, Key: limiter.EncodeKey("k")}},
			"number 0 has Weight -9":   {{Policy: p, Weight: -9, Peek: true}},
			"numbers 0 and 1 take fro": {{Policy: p}, {Policy: p, Peek: true}},
		} {
			_, err := store.Decide(context.Background(), checks)
			redistest.ErrorIf(t, !errors.Is(err, limiter.ErrInvalidCheck) || errors.Is(err, limiter.ErrUndecided) || !strings.Contains(err.Error(), problem),
				"%s: got %v; want an error about %q", name, err, problem)
		}
		wantRemaining(t, store, p, "k", 2)
	}
}

// TestStore_Refund_reserved settles all checks of a request to nothing, by the stores alone: those without Refundable
// stay charged.
func TestStore_Refund_reserved(t *testing.T) {
	t.Parallel()
	shared, local := openRedis(t, redistest.Shared(t), 10*time.Second), memory.New()
	for name, store := range map[string]limiter.Store{"redis": shared, "memory": local} {
		p := storetest.NewPolicy(t, limiter.Settings{Name: "stays-" + name, Algorithm: limiter.FixedWindow, Limit: 10, Window: 24 * time.Hour})
		checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k")}, {Policy: p, Key: limiter.EncodeKey("other"), Refundable: true}}
		_, err := store.Decide(t.Context(), checks)
		redistest.FatalIf(t, err != nil || !limiter.Allowed(checks), "%+v %+v %+v", name, err, checks)
		if store == shared {
			storetest.RefundIn(shared, checks)
		} else {
			storetest.RefundIn(local, checks)
		}
		for key, want := range map[string]int64{"k": 9, "other": 10} {
			wantRemaining(t, store, p, key, want)
		}
	}
}

// TestFailover_wrongSource refunds and charges by the source of another store: a store without Redis uses its
// own states.
func TestFailover_wrongSource(t *testing.T) {
	t.Parallel()
	p := storetest.NewPolicy(t, limiter.Settings{Name: "p", Algorithm: limiter.FixedWindow, Limit: 10, Window: 24 * time.Hour})
	for _, source := range []limiter.Source{limiter.SourceRedis, limiter.SourceFallback, limiter.SourceMemory, ""} {
		store := New(nil, memory.New(), Options{LocalFraction: 0.5})
		checks := storetest.Decide(t, store, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 3, Refundable: true})
		refundAll(store, checks, source)
		chargeAll(store, []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 2}}, source)
		wantRemaining(t, store, p, "k", 8)
	}
}

// TestStore_Decide_zeroPolicy decides by a policy that NewPolicy did not make.
func TestStore_Decide_zeroPolicy(t *testing.T) {
	t.Parallel()
	if _, err := limiter.Allow(t.Context(), memory.New(), storetest.ConcurrencyPolicy(t, 2), "k"); !errors.Is(err, limiter.ErrInvalidCheck) || !strings.Contains(err.Error(), "EndRunning") {
		t.Errorf("a request that nothing ends: %v", err)
	}
	_, err := limiter.Allow(t.Context(), memory.New(), &limiter.Policy{}, "k")
	redistest.ErrorIf(t, !errors.Is(err, limiter.ErrInvalidCheck), "the error is %v", err)
}
