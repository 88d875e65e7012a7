package limiter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// This file plays the same traces through every store and holds the answers equal to the last
// microsecond.

// testClockFragment stands in for clock.lua: the time is a key that the test sets, and keys
// outlive their shares by an hour, because Redis's own clock does not follow the test's.
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

// memoryStore is the in-process store on a clock of the test's.
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
			receipts[i] = c.Policy.algorithm.kernel.receipt(judge(held, *now, c))
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
				shard.put(c.Key, c.Policy.algorithm.kernel.giveBack(shard.get(c.Policy, c.Key, *now), *now/c.Policy.terms.tick, &c.Policy.terms, c.Weight, receipts[i]))
			}
		}
	}
	return s
}

// redisStore is a store on a real Redis that takes its time from the test.
func redisStore(t testing.TB, server *redistest.Server) *testStore {
	t.Helper()
	r := newTestRedis(t, server, RedisOptions{Timeout: 10 * time.Second, Naming: Naming{Prefix: "t"}})
	r.scripts.clock = testClockFragment
	client := server.Client(t)
	s := &testStore{Store: r, name: "redis", set: func(micros int64) {
		if err := client.Set(context.Background(), "test:clock", micros, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}}
	do := func(op operation, checks []Check, receipts []receipt) *call {
		c := newCall(op, checks)
		c.receipts = append(c.receipts, receipts...)
		if err := r.routes.whole.batcher.do(context.Background(), c, 10*time.Second); err != nil {
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
	s.giveBack = func(checks []Check, receipts []receipt) { do(opGiveBack, checks, receipts) }
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

// epoch is an instant of the tests that every window used in them is aligned to.
const epoch = int64(1_790_000_000_000_000) / 86_400_000_000 * 86_400_000_000

// tracePolicies are the policies that traces choose from: every algorithm with small and large
// limits, bursts, queues, and one that counts in milliseconds.
func tracePolicies(t *testing.T) []*Policy {
	t.Helper()
	var policies []*Policy
	add := func(s Settings) {
		s.Name = fmt.Sprintf("p%d", len(policies))
		policies = append(policies, mustPolicy(t, s))
	}
	strict, patient := time.Duration(0), 700*time.Millisecond
	for _, algorithm := range Algorithms() {
		add(Settings{Algorithm: algorithm, Limit: 1, Window: 10 * time.Second})
		add(Settings{Algorithm: algorithm, Limit: 3, Window: time.Second})
		add(Settings{Algorithm: algorithm, Limit: 50, Window: time.Minute})
		add(Settings{Algorithm: algorithm, Limit: 7, Window: 3 * time.Millisecond})
		add(Settings{Algorithm: algorithm, Limit: 100_000, Window: 24 * time.Hour})
		if algorithmNamed(algorithm).bursts {
			add(Settings{Algorithm: algorithm, Limit: 10, Window: 2 * time.Second, Burst: 3})
			add(Settings{Algorithm: algorithm, Limit: 2, Window: time.Minute, Burst: 9})
		}
	}
	add(Settings{Algorithm: "leaky_bucket", Limit: 5, Window: time.Second, MaxDelay: &strict})
	add(Settings{Algorithm: "leaky_bucket", Limit: 5, Window: time.Second, Burst: 8, MaxDelay: &patient})
	return policies
}

// trace is a random walk through requests, biased to the edges of windows and waits.
type trace struct {
	random   *rand.Rand
	policies []*Policy
	changed  []*Policy // the same policies with another limit and burst, on the same shares
	now      int64
	waits    []int64 // waits lately answered, in microseconds
	reserved []reservation
}

// reservation is a take that may be given back, with its receipts from each store.
type reservation struct {
	checks   []Check
	receipts [][]receipt
}

// newTrace chooses four policies, for every other seed of one algorithm.
func newTrace(t *testing.T, seed uint64) *trace {
	t.Helper()
	tr := &trace{random: rand.New(rand.NewPCG(seed, 1)), now: epoch}
	all := tracePolicies(t)
	if only := Algorithms()[seed/2%uint64(len(registry))]; seed%2 == 1 {
		all = slices.DeleteFunc(all, func(p *Policy) bool { return p.settings.Algorithm != only })
	}
	for _, i := range tr.random.Perm(len(all))[:4] {
		s := all[i].settings
		tr.policies = append(tr.policies, all[i])
		s.Limit = max(1, s.Limit/2)
		if s.Burst > 0 {
			s.Burst = max(1, s.Burst/3)
		}
		tr.changed = append(tr.changed, mustPolicy(t, s))
	}
	return tr
}

// step moves the clock: often not at all, often to an edge plus or minus a tick, now and then
// backwards.
func (tr *trace) step() {
	p := tr.policies[tr.random.IntN(len(tr.policies))]
	window := p.settings.Window.Microseconds()
	nudge := (tr.random.Int64N(3) - 1) * p.terms.tick
	switch tr.random.IntN(10) {
	case 0, 1, 2:
	case 3:
		tr.now = (tr.now/window+1)*window + nudge
	case 4:
		tr.now += window + nudge
	case 5, 6:
		if len(tr.waits) > 0 {
			tr.now += tr.waits[tr.random.IntN(len(tr.waits))] + nudge
		}
	case 7:
		tr.now += tr.random.Int64N(window/4 + 1)
	case 8:
		tr.now += tr.random.Int64N(2000)
	case 9:
		full := cd(p.terms.capacity*p.terms.window, p.terms.limit) * p.terms.tick
		back := []int64{tr.random.Int64N(2*window + 1), window + nudge, full + nudge, p.terms.tick}
		if tr.random.IntN(3) == 0 {
			tr.now -= back[tr.random.IntN(len(back))]
		}
	}
	tr.now = max(tr.now, epoch-86_400_000_000)
}

// request makes up one to three checks of different policies.
func (tr *trace) request() []Check {
	checks := make([]Check, 1+tr.random.IntN(3)*tr.random.IntN(2))
	for i, at := range tr.random.Perm(len(tr.policies))[:len(checks)] {
		p := tr.policies[at]
		if tr.random.IntN(8) == 0 {
			p = tr.changed[at]
		}
		weights := []int64{0, 1, 1, 1, 1, 2, 3, p.Capacity(), p.Capacity() + 1, 1 + tr.random.Int64N(p.Capacity())}
		checks[i] = Check{Policy: p, Key: fmt.Sprint("k", tr.random.IntN(2)), Weight: weights[tr.random.IntN(len(weights))]}
	}
	return checks
}

// learn remembers the answers' waits, so that later steps land on them.
func (tr *trace) learn(checks []Check) {
	for i := range checks {
		for _, wait := range []time.Duration{checks[i].Result.RetryAfter, checks[i].Result.ResetAfter} {
			if wait > 0 && wait < 1000*24*time.Hour && len(tr.waits) < 8 {
				tr.waits = append(tr.waits, wait.Microseconds())
			}
		}
	}
	if len(tr.waits) >= 8 {
		tr.waits = tr.waits[4:]
	}
}

// TestStores_agree_on_random_traces is the conformance suite: whatever comes, Lua and Go answer
// the same.
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
					giveBackBoth(tr, stores)
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

// reserveBoth makes a take that can be given back in all stores.
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

// giveBackBoth undoes one of the takes made so far in all stores.
func giveBackBoth(tr *trace, stores []*testStore) {
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

// chargeBoth charges something in all stores, whether there is room or not. Rarely so much that the
// share saturates, because nothing passes for long afterwards.
func chargeBoth(tr *trace, stores []*testStore) {
	request := tr.request()
	for i := range request {
		c := &request[i]
		c.Weight = max(1, c.Weight)
		if tr.random.IntN(150) == 0 {
			c.Weight = []int64{c.Policy.Capacity() * 5, logUnits - 2, maxCharge / c.Policy.terms.window, maxCharge}[tr.random.IntN(4)]
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
