package failover

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
)

// TestStore_Refund_reserved settles all checks of a request to nothing, by the stores alone: those without Refundable
// stay charged.
func TestStore_Refund_reserved(t *testing.T) {
	t.Parallel()
	shared, local := openRedis(t, redistest.Shared(t), 10*time.Second), memory.New()
	for name, store := range map[string]limiter.Store{"redis": shared, "memory": local} {
		p := storetest.NewPolicy(t, limiter.Settings{Name: "stays-" + name, Algorithm: limiter.FixedWindow, Limit: 10, Window: 24 * time.Hour})
		checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k")}, {Policy: p, Key: limiter.EncodeKey("other"), Refundable: true}}
		if _, err := store.Decide(t.Context(), checks); err != nil || !limiter.Allowed(checks) {
			t.Fatal(name, err, checks)
		}
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
	if _, err := limiter.Allow(t.Context(), memory.New(), &limiter.Policy{}, "k"); !errors.Is(err, limiter.ErrInvalidCheck) {
		t.Errorf("the error is %v", err)
	}
}
