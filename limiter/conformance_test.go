package limiter

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// This file plays the same traces through every store and holds the answers equal to the last
// microsecond.

// testClockFragment replaces clock.lua: the time is a key that the test sets, and keys outlive their
// states by an hour, because Redis's own clock does not follow the test's.
const testClockFragment = `
local now_us = tonumber(redis.call('GET', 'test:clock'))
local grace = 3600000
`

// testStore is a store under a clock that the test moves.
type testStore struct {
	Store
	name     string
	set      func(micros int64)
	giveBack func(checks []Check, receipts []receipt)
	reserve  func(checks []Check) []receipt // nil where denied
	charge   func(checks []Check)
}

// memoryStore returns an in-process store on a clock of the test's.
func memoryStore() *testStore {
	now := new(int64)
	m := NewMemory(func() int64 { return *now })
	m.grace = 1 << 50 // the test's clock runs backwards by days
	s := &testStore{Store: m, name: "memory", set: func(micros int64) { *now = micros }, charge: m.Charge}
	s.reserve = func(checks []Check) []receipt {
		receipts := make([]receipt, len(checks))
		for i := range checks {
			c := &checks[i]
			held := m.tableOf(c.Policy).shardOf(c.Key).get(c.Policy, c.Key, *now)
			receipts[i] = c.Policy.algorithm.kernel.receipt(evaluate(held, *now, c))
		}
		m.decideMany(checks)
		if !Allowed(checks) {
			return nil
		}
		return receipts
	}
	s.giveBack = func(checks []Check, receipts []receipt) {
		for i := range checks {
			c := &checks[i]
			shard := m.tableOf(c.Policy).shardOf(c.Key)
			if _, found := shard.kept(c.Key); found {
				shard.put(c.Key, c.Policy.algorithm.kernel.refund(shard.get(c.Policy, c.Key, *now), *now/c.Policy.params.tick, &c.Policy.params, c.Weight, receipts[i]))
			}
		}
	}
	return s
}

// redisStore returns a store on a real Redis that takes its time from the test.
func redisStore(t testing.TB, server *redistest.Server) *testStore {
	t.Helper()
	r := newTestRedis(t, server, RedisOptions{Timeout: 10 * time.Second, KeyFormat: KeyFormat{Prefix: "t"}})
	r.scripts.clock = testClockFragment
	client := server.Client(t)
	s := &testStore{Store: r, name: "redis", set: func(micros int64) {
		if err := client.Set(context.Background(), "test:clock", micros, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}}
	do := func(op operation, checks []Check, receipts []receipt) *call {
		c := newCall(op, checks)
		c.receipts = append(c.receipts[:0], receipts...)
		if err := r.topology.anyNode.batcher.do(context.Background(), c, 10*time.Second); err != nil {
			t.Fatal(err)
		}
		if c.err != nil {
			t.Fatal(c.err)
		}
		return c
	}
	s.reserve = func(checks []Check) []receipt {
		c := do(opReserve, checks, nil)
		copy(checks, c.checks)
		if !Allowed(checks) {
			return nil
		}
		return slices.Clone(c.receipts)
	}
	s.giveBack = func(checks []Check, receipts []receipt) { do(opRefund, checks, receipts) }
	s.charge = func(checks []Check) { do(opCharge, checks, nil) }
	return s
}

func newTestRedis(t testing.TB, server *redistest.Server, options RedisOptions) *Redis {
	t.Helper()
	client, err := NewClient(ClientOptions{Addresses: []string{server.Addr}, Timeout: options.Timeout})
	if err != nil {
		t.Fatal(err)
	}
	r := NewRedis(client, options)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func mustPolicy(t testing.TB, s Settings) *Policy {
	t.Helper()
	if s.Name == "" {
		s.Name = "p"
	}
	p, err := NewPolicy(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// epoch is an instant that is a boundary of every window in the tests.
const epoch = int64(1_790_000_000_000_000) / 86_400_000_000 * 86_400_000_000

// TestStores_agree_on_random_traces is the conformance suite: Lua and Go answer the same to any
// trace.
func TestStores_agree_on_random_traces(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	const seeds, steps = 48, 800
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			client.FlushAll(context.Background())
			stores := []*testStore{memoryStore(), redisStore(t, server)}
			tr := newTrace(t, seed)
			for range steps {
				tr.step()
				switch tr.random.IntN(7) {
				case 0:
					reserveBoth(t, tr, stores)
				case 1:
					refundBoth(tr, stores)
				case 2:
					chargeBoth(tr, stores)
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
	answers := make([][]Check, len(stores))
	for i, s := range stores {
		s.set(tr.now)
		answers[i] = slices.Clone(request)
		if _, err := s.Decide(context.Background(), answers[i]); err != nil {
			t.Fatal(err)
		}
	}
	compare(t, tr, stores, answers)
}

// reserveBoth makes a take that can be refunded in all stores.
func reserveBoth(t *testing.T, tr *trace, stores []*testStore) {
	t.Helper()
	r := reservation{checks: slices.DeleteFunc(tr.request(), func(c Check) bool {
		return c.Weight == 0 || c.Policy.settings.MaxDelay != nil
	})}
	if len(r.checks) == 0 {
		return
	}
	answers := make([][]Check, len(stores))
	for i, s := range stores {
		s.set(tr.now)
		answers[i] = slices.Clone(r.checks)
		r.receipts = append(r.receipts, s.reserve(answers[i]))
	}
	compare(t, tr, stores, answers)
	if Allowed(answers[0]) {
		tr.reserved = append(tr.reserved, r)
	}
}

// refundBoth undoes one of the takes made so far in all stores.
func refundBoth(tr *trace, stores []*testStore) {
	if len(tr.reserved) == 0 {
		return
	}
	at := tr.random.IntN(len(tr.reserved))
	r := tr.reserved[at]
	tr.reserved = slices.Delete(tr.reserved, at, at+1)
	for i, s := range stores {
		s.set(tr.now)
		s.giveBack(r.checks, r.receipts[i])
	}
}

// chargeBoth charges something in all stores, whether there is room or not. Charges that saturate
// the state are rare, because nothing passes for long afterwards.
func chargeBoth(tr *trace, stores []*testStore) {
	request := tr.request()
	for i := range request {
		c := &request[i]
		c.Weight = max(1, c.Weight)
		if tr.random.IntN(150) == 0 {
			c.Weight = []int64{c.Policy.Capacity() * 5, logUnits - 2, MaxCharge / c.Policy.params.window, MaxCharge}[tr.random.IntN(4)]
		}
	}
	for _, s := range stores {
		s.set(tr.now)
		s.charge(slices.Clone(request))
	}
}

// compare holds the answers of all stores equal.
func compare(t *testing.T, tr *trace, stores []*testStore, answers [][]Check) {
	t.Helper()
	for i := range answers[0] {
		a, b := answers[0][i], answers[1][i]
		if a.Result != b.Result {
			t.Fatalf("at epoch%+d, check %d of %d, of %v, weight %d of key %s:\n%s %+v\n%s %+v", tr.now-epoch,
				i, len(answers[0]), a.Policy.settings, a.Weight, a.Key, stores[0].name, answers[0], stores[1].name, answers[1])
		}
		checkInvariants(t, &a)
	}
	tr.learn(answers[0])
}

func checkInvariants(t *testing.T, c *Check) {
	t.Helper()
	r := c.Result
	if r.Remaining < 0 || r.Remaining > c.Policy.Capacity() || r.ResetAfter < 0 || r.Delay < 0 ||
		(c.Weight > c.Policy.Capacity()) != (r.RetryAfter == Never) || (c.Weight == 0 && r.RetryAfter != 0) {
		t.Fatalf("weight %d of %v: impossible result %+v", c.Weight, c.Policy.settings, r)
	}
}
