package failover

import (
	"math"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/inmemory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/onredis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/wire"
)

// This file has both stores pass the conformance suite.

func TestStores(t *testing.T) {
	t.Parallel()
	storetest.Run(t, stores)
}

func TestStores_promises(t *testing.T) {
	t.Parallel()
	storetest.Promises(t, inMemory)
}

// TestStores_agree_on_random_traces has Lua and Go answer the same.
func TestStores_agree_on_random_traces(t *testing.T) {
	t.Parallel()
	storetest.Agree(t, stores, assert.Rounds[uint64](48, 400))
}

func TestStores_lease_agree(t *testing.T) {
	t.Parallel()
	storetest.AgreeOnLeases(t, stores, assert.Rounds[uint64](18, 300))
}

// leaseDecisions is how many decisions of a kernel are played.
func leaseDecisions() int64 { return assert.Rounds[int64](40_000, 5_000_000) }

func TestLeases_never_admit_more(t *testing.T) {
	t.Parallel()
	storetest.LeasesNeverAdmitMore(t, 0, leaseDecisions(), inMemory)
}

// TestLeases_never_admit_more_on_Redis plays some traces with the scripts of a real Redis.
func TestLeases_never_admit_more_on_Redis(t *testing.T) {
	t.Parallel()
	storetest.LeasesNeverAdmitMore(t, 1_000_000, leaseDecisions()/20, onRedis)
}

// stores returns a store of each kind.
func stores(t testing.TB) []*storetest.Store {
	t.Helper()
	return []*storetest.Store{inMemory(t), onRedis(t)}
}

func inMemory(testing.TB) *storetest.Store { return memoryStore().Store }

func onRedis(t testing.TB) *storetest.Store {
	t.Helper()
	return redisStore(t, redistest.Shared(t)).Store
}

// testStores returns a store of each kind, with what is inside.
func testStores(t testing.TB) []*testStore {
	t.Helper()
	return []*testStore{memoryStore(), redisStore(t, redistest.Shared(t))}
}

// testStore is a store of the suite, and what it plays to.
type testStore struct {
	*storetest.Store
	f *Store
}

func newTestStore(f *Store, name string, source limiter.Source) *testStore {
	return wrap(&storetest.Store{Name: name, Source: source, Await: func() {}}, f)
}

// wrap has a store of the suite decide and settle by a failover.
func wrap(s *storetest.Store, f *Store) *testStore {
	s.Store = f
	s.Settle = func(c limiter.Check, cost int64) { f.Settle(c, cost, s.Source) }
	return &testStore{s, f}
}

// memoryStore returns an in-process store on a clock of the test's.
func memoryStore() *testStore {
	s, m := inmemory.New()
	return wrap(s, New(nil, m, Options{}))
}

// redisStore returns a store on a real Redis that takes its time from the test.
func redisStore(t testing.TB, server *redistest.Server) *testStore {
	t.Helper()
	s, r := onredis.New(t, server)
	return wrap(s, New(r, memory.New(), Options{OnUndecided: func(err error) { t.Error(err) }}))
}

// readReply has a take of one check read a reply.
func readReply(t *testing.T, reply any) *redis.Call {
	t.Helper()
	m := &wire.Message{}
	c := redis.NewCall(wire.OpTake, []limiter.Check{{Policy: storetest.DayPolicy(t, "read", limiter.GCRA, 10), Key: limiter.EncodeKey("k"), Weight: 1}})
	m.Write([]*wire.Payload{&c.Payload}, wire.NewWriter(limiter.KeyFormat{}))
	m.Command("evalsha", "")
	m.Sent.SetVal(reply)
	m.Deliver(nil)
	return c
}

func TestMessage_read_invalid(t *testing.T) {
	for _, reply := range []any{nil, "", int64(5), []any{}, []any{int64(1)}, strings.Repeat("x", 39), strings.Repeat("\xff", 40), strings.Repeat("x", 72), redistest.Doubles(math.NaN(), 0, 9, 1, 0), redistest.Doubles(-1, 0, 9, 1, 0), redistest.Doubles(1<<53, 0, 9, 1, 0)} {
		c := readReply(t, reply)
		assert.ErrorIf(t, c.Err == nil, "%q was read as %+v", reply, c.Checks[0].Result)
	}
}

// FuzzRead passes any bytes to the reader in place of a script's answer.
func FuzzRead(f *testing.F) {
	f.Add("", "")
	f.Add(strings.Repeat("\x00", 40), "WRONGTYPE")
	f.Add(strings.Repeat("\xff", 40), "")
	f.Fuzz(func(t *testing.T, answers, problem string) {
		for _, reply := range []any{answers, []any{answers, int64(1), problem}, []any{answers, problem}} {
			c := readReply(t, reply)
			if r := c.Checks[0].Result; c.Err == nil && (r.Remaining < 0 || r.Remaining > 10 || r.RetryAfter < limiter.Never || r.ResetAfter < 0 || r.Delay < 0) {
				t.Errorf("impossible result %+v", r)
			}
		}
	})
}
