package redis_test

import (
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// This file has both stores pass the conformance suite.

func TestStores(t *testing.T) {
	t.Parallel()
	storetest.Run(t, candidates)
}

// TestStores_agree_on_random_traces has Lua and Go answer the same.
func TestStores_agree_on_random_traces(t *testing.T) {
	t.Parallel()
	storetest.Agree(t, candidates, assert.Rounds[uint64](30, 400))
}

func TestStores_lease_agree(t *testing.T) {
	t.Parallel()
	storetest.AgreeOnLeases(t, candidates, assert.Rounds[uint64](18, 300))
}

// TestLeases_never_admit_more_on_Redis plays some traces with the scripts of a real Redis.
func TestLeases_never_admit_more_on_Redis(t *testing.T) {
	t.Parallel()
	storetest.LeasesNeverAdmitMore(t, 1_000_000, assert.Rounds[int64](2_000, 250_000), onRedis)
}

// candidates returns a store of each kind.
func candidates(t testing.TB) []*storetest.Candidate {
	t.Helper()
	return []*storetest.Candidate{stores.OpenMemory(t), onRedis(t)}
}

func onRedis(t testing.TB) *storetest.Candidate {
	t.Helper()
	s, _ := stores.NewRedis(t, redistest.Shared(t))
	return s
}
