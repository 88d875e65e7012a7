package memory_test

import (
	"errors"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

func TestStores_promises(t *testing.T) {
	t.Parallel()
	storetest.Promises(t, stores.OpenMemory)
}

func TestLeases_never_admit_more(t *testing.T) {
	t.Parallel()
	storetest.LeasesNeverAdmitMore(t, 0, assert.Rounds[int64](40_000, 5_000_000), stores.OpenMemory)
}

// TestStore_Decide_zeroPolicy decides by a policy that NewPolicy did not make.
func TestStore_Decide_zeroPolicy(t *testing.T) {
	t.Parallel()
	_, err := storetest.Allow(t.Context(), memory.New(), &limiter.Policy{}, "k")
	assert.ErrorIf(t, !errors.Is(err, limiter.ErrInvalidCheck), "the error is %v", err)
}
