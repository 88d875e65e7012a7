package failover

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/decision"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/queue"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis/dial"
)

// This file plays the same traces through every store and holds the answers equal to the last
// microsecond.

// testClockFragment replaces clock.lua: the time is a key that the test sets, and keys outlive their
// states by an hour, because Redis's own clock does not follow the test's.
const testClockFragment = `
local now_us = tonumber(redis.call('GET', 'test:clock'))
local grace = 3600000
`

// testStore is a store under a clock that the test moves, behind the methods that programs call.
type testStore struct {
	*Store
	name   string
	source limiter.Source
	set    func(micros int64)
	settle func() // waits for refunds and charges
	debit  func(c *limiter.Check, d kernel.Debt) (units int64)
}

// memoryStore returns an in-process store on a clock of the test's.
func memoryStore() *testStore {
	now := new(int64)
	m := memory.NewOnClock(func() int64 { return *now })
	m.Grace = 1 << 50 // the test's clock runs backwards by days
	return &testStore{
		Store: New(nil, m, Options{}), name: "memory", source: limiter.SourceMemory,
		set: func(micros int64) { *now = micros }, settle: func() {},
		debit: func(c *limiter.Check, d kernel.Debt) int64 {
			s := m.Lock(c.Policy, c.Key.String())
			defer s.Mu.Unlock()
			old := s.Get(c.Policy, c.Key.String(), *now)
			settled, units := c.Policy.Rule().Algorithm.Kernel.Repay(old, *now/c.Policy.Rule().Params.Tick, &c.Policy.Rule().Params, d)
			if units > 0 || !c.Policy.Rule().Algorithm.Logs && settled != old {
				s.Store(c, old, settled, *now)
			}
			return units
		},
	}
}

// pause waits between two looks at a condition that soon holds. It leaves the processor to others.
func pause() { <-time.After(20 * time.Microsecond) }

// testClocks has what the clock of each [redistest.Server] is set to.
var testClocks sync.Map

// redisStore returns a store on a real Redis that takes its time from the test.
func redisStore(t testing.TB, server *redistest.Server) *testStore {
	t.Helper()
	r := newTestRedis(t, server, 10*time.Second, limiter.KeyFormat{Prefix: "t"})
	r.Scripts.Clock = testClockFragment
	client := server.Client(t)
	testClocks.Delete(server) // it may be flushed
	batcher := &r.Topology.AnyNode.Batcher
	return &testStore{
		Store: New(r, memory.New(), Options{OnUndecided: func(err error) { t.Error(err) }}),
		name:  "redis", source: limiter.SourceRedis,
		set: func(micros int64) {
			if before, _ := testClocks.Swap(server, micros); before == micros {
				return
			}
			if err := client.Set(context.Background(), "test:clock", micros, 0).Err(); err != nil {
				t.Fatal(err)
			}
		},
		settle: func() {
			for {
				batcher.Mu.Lock()
				pending := len(batcher.Unsettled.Quotas)
				batcher.Mu.Unlock()
				if pending == 0 {
					return
				}
				pause()
			}
		},
		debit: func(c *limiter.Check, d kernel.Debt) (units int64) {
			call := queue.NewRepayment(c.Policy, c.Key, []kernel.Debt{d})
			if err := batcher.Do(context.Background(), call, 10*time.Second); err != nil || call.Err != nil {
				t.Fatal(err, call.Err)
			}
			return call.Repaid
		},
	}
}

// decide decides a request on the store and nowhere else.
func (s *testStore) decide(t testing.TB, checks []limiter.Check) {
	t.Helper()
	if source, err := s.Decide(context.Background(), checks); err != nil || source != s.source {
		t.Fatalf("decided by %s: %v", source, err)
	}
	s.settle() // units that count for bans
}

// refundAll refunds what checks took, keepAll has it stay.
func refundAll(f *Store, checks []limiter.Check, source limiter.Source) {
	for _, c := range checks {
		f.Settle(c, 0, source)
	}
}

func keepAll(f *Store, checks []limiter.Check, source limiter.Source) {
	for _, c := range checks {
		f.Settle(c, decision.Units(&c), source)
	}
}

// chargeAll charges the weights of checks that have taken nothing.
func chargeAll(f *Store, checks []limiter.Check, source limiter.Source) {
	for _, c := range checks {
		units := c.Weight
		c.Peek = true
		f.Settle(c, units, source)
	}
}

// newRefund returns a call that refunds a unit of each check.
func newRefund(checks ...limiter.Check) *queue.Call {
	return queue.NewSettlement(checks, slices.Repeat([]decision.Change{{Units: -1}}, len(checks))...)
}

// refund refunds checks before it returns.
func (s *testStore) refund(checks []limiter.Check) {
	refundAll(s.Store, checks, s.source)
	s.settle()
}

// settleCost settles a check to a cost before it returns.
func (s *testStore) settleCost(check limiter.Check, cost int64) {
	s.Settle(check, cost, s.source)
	s.settle()
}

// charge charges checks before it returns.
func (s *testStore) charge(checks []limiter.Check) {
	chargeAll(s.Store, checks, s.source)
	s.settle()
}

func newTestRedis(t testing.TB, server *redistest.Server, timeout time.Duration, format limiter.KeyFormat) *redis.Store {
	t.Helper()
	client, err := dial.New(dial.Options{Addresses: []string{server.Addr}, DB: server.DB, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	r := redis.New(client, redis.Options{KeyFormat: format})
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// TestStores_agree_on_random_traces is the conformance suite: Lua and Go answer the same to any
// trace.
func TestStores_agree_on_random_traces(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	client := server.Client(t)
	const steps = 500
	for seed := range redistest.Rounds[uint64](48, 400) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			client.FlushDB(context.Background())
			stores := []*testStore{memoryStore(), redisStore(t, server)}
			tr := newTrace(t, seed)
			for range steps {
				tr.step()
				switch tr.random.IntN(9) {
				case 0:
					reserveBoth(t, tr, stores)
				case 1:
					refundBoth(tr, stores)
				case 2:
					chargeBoth(tr, stores)
				case 3:
					repayBoth(t, tr, stores)
				case 4:
					confirmBoth(tr, stores)
				case 5:
					settleCostBoth(tr, stores)
				default:
					playBoth(t, tr, stores)
				}
			}
		})
	}
}

// playBoth sends one request to all stores.
func playBoth(t *testing.T, tr *trace, stores []*testStore) {
	t.Helper()
	request := tr.request()
	answers := make([][]limiter.Check, len(stores))
	for i, s := range stores {
		s.set(tr.now)
		answers[i] = slices.Clone(request)
		s.decide(t, answers[i])
	}
	compare(t, tr, stores, answers)
}

// chargeBoth charges something in all stores, whether there is room or not. Charges that saturate
// the state are rare, because nothing passes for long afterwards.
func chargeBoth(tr *trace, stores []*testStore) {
	request := tr.request()
	for i := range request {
		c := &request[i]
		c.Weight, c.Peek = max(1, c.Weight), false
		if tr.random.IntN(150) == 0 {
			c.Weight = []int64{c.Policy.Capacity() * 5, kernel.LogUnits - 2, limiter.MaxCharge / c.Policy.Rule().Params.Window, limiter.MaxCharge}[tr.random.IntN(4)]
		}
	}
	for _, s := range stores {
		s.set(tr.now)
		s.charge(slices.Clone(request))
	}
}

// repayBoth adds a debt in all stores: of a window or an instant that is current, decayed or to come.
func repayBoth(t *testing.T, tr *trace, stores []*testStore) {
	t.Helper()
	c := &tr.request()[0]
	p := &c.Policy.Rule().Params
	now := tr.now / p.Tick
	d := kernel.Debt{Amount: 1 + tr.random.Int64N(2*p.Capacity)}
	switch {
	case c.Policy.IsBucket():
		d.Amount = 1 + tr.random.Int64N(2*p.Capacity*p.Window)
	case c.Policy.Rule().Algorithm.Logs:
		d.At = now - []int64{0, 1, p.Window / 2, p.Window - 1, p.Window, p.Window + 1, -1}[tr.random.IntN(7)]
	case p.Periods != nil:
		d.At = p.Periods.Around(now)[tr.random.IntN(4)] + tr.random.Int64N(5*3_600_000_000)
	default:
		d.At = now/p.Window + tr.random.Int64N(4) - 2
	}
	var units [2]int64
	for i, s := range stores {
		s.set(tr.now)
		units[i] = s.debit(c, d)
	}
	if units[0] != units[1] {
		t.Fatalf("at epoch%+d, a debt %+v of %v: %v units settled", tr.now-storetest.Epoch, d, c.Policy.Settings(), units)
	}
	playBoth(t, tr, stores)
}

// compare holds the answers of all stores equal.
func compare(t *testing.T, tr *trace, stores []*testStore, answers [][]limiter.Check) {
	t.Helper()
	for i := range answers[0] {
		a, b := answers[0][i], answers[1][i]
		if a.Result != b.Result || (!a.Result.Banned && decision.Kept(&a).Withheld != decision.Kept(&b).Withheld) {
			t.Fatalf("at epoch%+d, check %d of %d, of %v, weight %d and %d left of key %s:\n%s %+v\n%s %+v", tr.now-storetest.Epoch,
				i, len(answers[0]), a.Policy.Settings(), a.Weight, a.Reserve, a.Key, stores[0].name, answers[0], stores[1].name, answers[1])
		}
		checkInvariants(t, &a)
	}
	tr.learn(answers[0])
}

func checkInvariants(t *testing.T, c *limiter.Check) {
	t.Helper()
	r := c.Result
	if r.Remaining < 0 || r.Remaining > c.Policy.Capacity() || r.ResetAfter < 0 || r.Delay < 0 ||
		decision.NeverPasses(c) != (r.RetryAfter == limiter.Never) || r.Remaining > c.Policy.Capacity()-decision.Reserve(c) ||
		(r.ForOthers && (c.Reserve == 0 || r.Passes() || r.Banned)) || decision.Kept(c).Withheld < 0 || (decision.Kept(c).Withheld > decision.Reserve(c) && c.Policy.Rule().Params.MaxDelay < 0) || (c.Peek && r.RetryAfter != 0) ||
		r.Banned != (r.BanLeft > 0) || (r.Banned && (c.Policy.Rule().Ban == nil || r.Remaining > 0 || r.Delay > 0)) || (r.BanBegins && !r.Banned) {
		t.Fatalf("weight %d, %d left, of %v: impossible result %+v", c.Weight, c.Reserve, c.Policy.Settings(), r)
	}
}
