package failover

import (
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// This file has the failover pass the conformance suite that its stores pass.

func TestFailover_conforms(t *testing.T) {
	t.Parallel()
	storetest.Run(t, candidates)
	storetest.CountsWhatStays(t, candidates)
}

// TestFailover_agrees_on_random_traces plays fewer traces than the stores' own folders.
func TestFailover_agrees_on_random_traces(t *testing.T) {
	t.Parallel()
	storetest.Agree(t, candidates, assert.Rounds[uint64](8, 50))
}

// candidates returns a failover without Redis and one with it.
func candidates(t testing.TB) []*storetest.Candidate {
	t.Helper()
	both := testStores(t)
	return []*storetest.Candidate{both[0].Candidate, both[1].Candidate}
}

// testStores returns a store of each kind, with what is inside.
func testStores(t testing.TB) []*testStore {
	t.Helper()
	return []*testStore{memoryStore(), redisStore(t, redistest.Shared(t))}
}

// testStore is a store of the suite, and what it plays to.
type testStore struct {
	*storetest.Candidate
	f *Store
}

func newTestStore(f *Store, name string, source limiter.Source) *testStore {
	return wrap(&storetest.Candidate{Name: name, Source: source, Await: func() {}}, f)
}

// wrap has a store of the suite decide and settle by a failover.
func wrap(s *storetest.Candidate, f *Store) *testStore {
	s.Store = f
	s.Settle = func(c limiter.Check, cost int64) { f.Settle(c, cost, s.Source) }
	return &testStore{s, f}
}

// memoryStore returns an in-process store on a clock of the test's.
func memoryStore() *testStore {
	s, m := stores.NewMemory()
	return wrap(s, New(nil, m, Behavior{}))
}

// redisStore returns a store on a real Redis that takes its time from the test.
func redisStore(t testing.TB, server *redistest.Server) *testStore {
	t.Helper()
	s, r := stores.NewRedis(t, server)
	return wrap(s, New(r, memory.New(), Behavior{OnUndecided: func(err error) { t.Error(err) }}))
}
