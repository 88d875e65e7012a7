package failover

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
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
	settle := func(c limiter.Check, cost int64) { f.Settle(c, cost, source) }
	return &testStore{&storetest.Store{Store: f, Name: name, Source: source, Settle: settle, Await: func() {}}, f}
}

// memoryStore returns an in-process store on a clock of the test's.
func memoryStore() *testStore {
	now := new(int64)
	m := memory.NewOnClock(func() int64 { return *now })
	m.Grace = 1 << 50 // the test's clock runs backwards by days
	s := newTestStore(New(nil, m, Options{}), "memory", limiter.SourceMemory)
	s.SetClock = func(micros int64) { *now = micros }
	s.Repay = func(_ testing.TB, c *limiter.Check, d kernel.Debt) int64 {
		shard := m.Lock(c.Policy, c.Key.String())
		defer shard.Mu.Unlock()
		old := shard.Get(c.Policy, c.Key.String(), *now)
		settled, units := c.Policy.Algorithm.Kernel.Repay(old, *now/c.Policy.Params.Tick, &c.Policy.Params, d)
		if units > 0 || !c.Policy.Algorithm.Logs && settled != old {
			shard.Store(c, old, settled, *now)
		}
		return units
	}
	s.Lease = func(_ testing.TB, c *limiter.Check, wish kernel.Wish, rest int64, r kernel.Receipt) (limiter.Result, kernel.Lease) {
		return leaseInMemory(m, *now, c, wish, rest, r)
	}
	s.Copy = func(p *limiter.Policy) *storetest.Store {
		twin, held := memoryStore(), m.TableOf(p).Shards.Of("k")
		state, _ := held.Kept("k")
		if state.Log != nil {
			state.Log = &kernel.UnitLog{Entries: slices.Clone(state.Log.Entries), Before: state.Log.Before}
		}
		shard := twin.f.local.TableOf(p).Shards.Of("k")
		shard.Put("k", state)
		shard.Bans = maps.Clone(held.Bans)
		return twin.Store
	}
	return s
}

// leaseInMemory gives back and leases by the Go twins.
func leaseInMemory(m *memory.Store, now int64, c *limiter.Check, wish kernel.Wish, rest int64, r kernel.Receipt) (limiter.Result, kernel.Lease) {
	shard := m.Lock(c.Policy, c.Key.String())
	defer shard.Mu.Unlock()
	p, own := &c.Policy.Params, *c
	k := c.Policy.Algorithm.Kernel.(kernel.Leasing) //nolint:forcetypeassert,errcheck // the suite leases no others
	old := shard.Get(c.Policy, c.Key.String(), now)
	next := old
	if rest > 0 {
		next = k.GiveBack(next, now/p.Tick, p, rest, r)
	}
	if limiter.NeverPasses(&own) {
		limiter.Answer(&own, limiter.Evaluate(next, now, &own), now)
		shard.Put(c.Key.String(), next)
		return own.Result, kernel.Lease{}
	}
	v, l, next := k.Lease(next, now/p.Tick, p, limiter.Units(&own), limiter.Reserve(&own), wish)
	if old != (kernel.State{}) || next != (kernel.State{}) {
		shard.Store(c, old, next, now)
	}
	limiter.Answer(&own, v, now)
	if l.Units == 0 {
		return own.Result, kernel.Lease{}
	}
	l.Lasts = micros(p, l.Lasts, now%p.Tick)
	return own.Result, l
}

// testClockFragment replaces clock.lua: the time is a key that the test sets, and keys outlive their
// states by an hour, because Redis's own clock does not follow the test's.
const testClockFragment = `
local now_us = tonumber(redis.call('GET', 'test:clock'))
local grace = 3600000
`

// testClocks has what the clock of each [redistest.Server] is set to.
var testClocks sync.Map

// redisStore returns a store on a real Redis that takes its time from the test.
func redisStore(t testing.TB, server *redistest.Server) *testStore {
	t.Helper()
	r := onredis.OpenWithin(t, server, onredis.Patience, limiter.KeyFormat{Prefix: "t"})
	r.Scripts.Clock = testClockFragment
	client := server.Client(t)
	testClocks.Delete(server) // it may be flushed
	batcher := &r.Topology.AnyNode.Batcher
	do := func(t testing.TB, call *redis.Call) {
		t.Helper()
		err := batcher.Do(context.Background(), call, onredis.Patience)
		assert.FatalIf(t, err != nil || call.Err != nil, "%+v %+v", err, call.Err)
	}
	s := newTestStore(New(r, memory.New(), Options{OnUndecided: func(err error) { t.Error(err) }}), "redis", limiter.SourceRedis)
	s.SetClock = func(micros int64) {
		if before, _ := testClocks.Swap(server, micros); before == micros {
			return
		}
		assert.Must(t, client.Set(context.Background(), "test:clock", micros, 0).Err())
	}
	s.Await = func() {
		for {
			batcher.Mu.Lock()
			pending := len(batcher.Unsettled.Quotas)
			batcher.Mu.Unlock()
			if pending == 0 {
				return
			}
			pause()
		}
	}
	s.Repay = func(t testing.TB, c *limiter.Check, d kernel.Debt) (units int64) {
		t.Helper()
		call := redis.NewRepayment(c.Policy, c.Key, []kernel.Debt{d})
		do(t, call)
		return call.Added()
	}
	s.Lease = func(t testing.TB, c *limiter.Check, wish kernel.Wish, rest int64, r kernel.Receipt) (limiter.Result, kernel.Lease) {
		t.Helper()
		call := redis.NewTakeAhead(c, wish, rest, r)
		do(t, call)
		defer call.Recycle()
		return call.Checks[0].Result, call.Lease.Got
	}
	return s
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

// micros returns a duration in ticks in microseconds, as scripts do. The offset is the part below a tick of the instant
// that the duration begins at. 0 and Never stay what they are.
func micros(p *kernel.Params, ticks, offset int64) int64 {
	if ticks <= 0 {
		return ticks
	}
	return ticks*p.Tick - offset
}
