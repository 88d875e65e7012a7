package failover

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// TestRepayment_flapping has Redis refuse writes again and again under load. Requests and settlements that
// it refuses have certainly not run, so that each unit that two nodes admitted arrives once.
func TestRepayment_flapping(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	nodes := []*Store{
		New(stores.Open(t, server), memory.New(), Behavior{}),
		New(stores.Open(t, server), memory.New(), Behavior{}),
	}
	policies := []*limiter.Policy{
		storetest.DayPolicy(t, "window", limiter.FixedWindow, 1_000_000), storetest.DayPolicy(t, "counter", limiter.SlidingWindowCounter, 1_000_000),
		storetest.DayPolicy(t, "log", limiter.SlidingWindowLog, 100_000),
	}
	const keys, requests, flaps = 4, 3000, 20
	var admitted [3][keys]atomic.Int64
	var fallbacks, sent atomic.Int64
	var load sync.WaitGroup
	for client := range 4 {
		load.Go(func() {
			for range requests {
				p, k, units := rand.IntN(3), rand.IntN(keys), rand.Int64N(3)+1
				checks := []limiter.Check{{Policy: policies[p], Key: limiter.EncodeKey(fmt.Sprint(k)), Weight: units}}
				source, err := nodes[client%2].Decide(t.Context(), checks)
				if err != nil || !limiter.Allowed(checks) {
					t.Errorf("%v, %+v", err, checks)
					return
				}
				if source == limiter.SourceFallback {
					fallbacks.Add(1)
				}
				admitted[p][k].Add(units)
				sent.Add(1)
			}
		})
	}
	admin := server.Client(t)
	for flap := range flaps {
		assert.Retry(t, "more requests were sent", func() (again bool, seen any) {
			got := sent.Load()
			return got < int64(4*requests*(flap+1)/(flaps+1)), fmt.Sprintf("%d", got)
		})
		if flap%2 == 0 {
			assert.Must(t, admin.ConfigSet(t.Context(), "maxmemory", "1").Err())
			continue
		}
		assert.Must(t, admin.ConfigSet(t.Context(), "maxmemory", "0").Err())
		for _, n := range nodes { // without waiting for the probe
			closeAgain(n.shared)
		}
	}
	load.Wait()
	assert.WaitFor(t, "all debts are settled", func() error {
		for _, n := range nodes {
			if !n.ledger.isEmpty() {
				return fmt.Errorf("%d accounts are left", n.ledger.size.Load())
			}
		}
		return nil
	})
	for p, policy := range policies {
		for k := range keys {
			var left limiter.Result
			var err error
			for _, n := range nodes { // each answers after its own settlements
				left, err = storetest.Peek(t.Context(), n, policy, fmt.Sprint(k))
			}
			if got, want := policy.Capacity()-left.Remaining, admitted[p][k].Load(); err != nil || got != want {
				t.Errorf("%s, key %d: Redis has counted %d, %v; want %d", policy.Name(), k, got, err, want)
			}
		}
	}
	assert.ErrorIf(t, fallbacks.Load() == 0, "Redis decided all requests")
	t.Logf("%d of %d requests were decided by the nodes", fallbacks.Load(), sent.Load())
}

// oweMany begins an outage in which a unit of each key is taken of two policies. The debts of the other one decay at
// once.
func oweMany(t *testing.T, f *Store, keys int) *limiter.Policy {
	t.Helper()
	keepOpen(f.shared)
	day := storetest.DayPolicy(t, "day", limiter.SlidingWindowCounter, 10)
	short := storetest.NewPolicy(t, limiter.Settings{Name: "short", Algorithm: limiter.FixedWindow, Limit: 10, Window: time.Millisecond})
	for i := range keys {
		for _, p := range []*limiter.Policy{day, short} {
			result, err := storetest.Allow(t.Context(), f, p, fmt.Sprint(i))
			assert.FatalIf(t, err != nil || !result.Passes(), "%+v %+v", result, err)
		}
	}
	return day
}

// TestRepayment_paced settles keys that no request asks for, and gives those up that were reset or have
// decayed.
func TestRepayment_paced(t *testing.T) {
	t.Parallel()
	var settled atomic.Int64
	f := New(stores.Open(t, redistest.Shared(t)), memory.New(), Behavior{OnRepaid: func(_ string, units int64) { settled.Add(units) }})
	const keys = 500
	p := oweMany(t, f, keys)
	_, err := f.shared.Reset(t.Context(), p, limiter.EncodeKey("none"))
	assert.Must(t, err)
	assert.NoError(f.Reset(t.Context(), p, limiter.EncodeKey("7")))(t)
	began := time.Now()
	closeAgain(f.shared)
	assert.Retry(t, "all debts are settled", func() (again bool, seen any) {
		left := f.ledger.size.Load()
		return left > 0 || settled.Load() < keys-1, fmt.Sprintf("%d accounts left, %d settled", left, settled.Load())
	})
	took, least := time.Since(began), (keys/repaidPerSpan-1)*repaySpan
	assert.ErrorIf(t, took < least, "settled within %v; want at least %v", took, least)
	assert.Equal(t, settled.Load(), keys-1, "the number of units settled")
	for i, want := range map[int]int64{0: 9, 7: 10, keys - 1: 9} {
		storetest.WantRemaining(t, f, p, fmt.Sprint(i), want)
	}
	assert.Retry(t, "the timer has ended", func() (again bool, seen any) {
		return f.ledger.repays.IsSet(), "it runs"
	})
}

// TestRepayment_closed ends a store in an outage, as a reload with another Redis does. What it is still
// owed is lost and counted; nothing of it goes on. It counts goroutines, and so runs beside no other test.
func TestRepayment_closed(t *testing.T) {
	server := redistest.Shared(t)
	before := runtime.NumGoroutine()
	for range 5 {
		client := assert.NoError(dial.New(dial.Connection{Addresses: []string{server.Addr}, DB: server.DB}))(t)
		var lost atomic.Int64
		f := New(redis.New(client, redis.Setup{OnLost: func(error) { lost.Add(1) }}), memory.New(), Behavior{})
		oweMany(t, f, 100)
		assert.Must(t, f.shared.Close())
		assert.Retry(t, "the debts are given up", func() (again bool, seen any) {
			left := f.ledger.size.Load()
			return left > 0, fmt.Sprintf("%d accounts", left)
		})
		assert.Equal(t, lost.Load(), 100, "the number of losses")
	}
	assert.Retry(t, "all goroutines have ended", func() (again bool, seen any) {
		return runtime.NumGoroutine() > before, "some are left"
	})
}

// TestRepayment_settings repays outages with every setting that changes keys, clocks or limits. Of requests with limits of
// their own the last one caps what is repaid, and a policy owes nothing for requests that another one denies.
func TestRepayment_settings(t *testing.T) {
	t.Parallel()
	window := storetest.LongWindow(time.Hour)
	var policies []*limiter.Policy
	for _, algorithm := range limiter.Algorithms()[:5] {
		policies = append(policies, storetest.NewPolicy(t, limiter.Settings{Name: algorithm, Algorithm: algorithm, Limit: 10, Window: window}))
	}
	outage := func(admits, left int) (steps string) {
		for i := range policies {
			steps += fmt.Sprintf(" of %d take 1 take 1 take 1 away %s denied 1 back peek left %d even", i, strings.Repeat("take 1 ", admits), left)
		}
		return steps
	}
	scenes := []*scene{
		{name: "Redis an hour ahead", policies: policies, ahead: time.Hour, steps: "a" + outage(7, 0)},
		{name: "Redis an hour behind", policies: policies, ahead: -time.Hour, steps: "a" + outage(7, 0)},
		{name: "hidden keys", policies: policies, secret: "secret", steps: "a" + outage(7, 0)},
		{name: "local fraction", policies: policies, options: Behavior{LocalFraction: 0.5}, steps: "a" + outage(3, 4)},
		{name: "forgiven", policies: policies, options: Behavior{ForgiveOutages: true}, steps: "a" + outage(7, 7)},
		{name: "a proxy that wants one slot", policies: policies, steps: "a slotted" + outage(7, 0)},
		{name: "two policies", policies: []*limiter.Policy{storetest.DayPolicy(t, "wide", limiter.FixedWindow, 10), storetest.DayPolicy(t, "narrow", limiter.TokenBucket, 2)},
			steps: "a away take 1 take 1 denied 1 denied 1 denied 1 back peek left 8,0 even"},
	}
	for _, algorithm := range limiter.Algorithms() {
		large := storetest.NewPolicy(t, limiter.Settings{Name: "limits", Algorithm: algorithm, Limit: 100, Window: 24 * time.Hour, Dynamic: true})
		small := assert.NoError(large.WithLimit(10, 0))(t)
		scenes = append(scenes, &scene{name: "limits of requests by " + algorithm, policies: []*limiter.Policy{large, small},
			steps: "a away of 0 take 4 of 1 take 3 of 0 take 8 back peek left 85 even away take 5 of 1 denied 1 back of 0 peek left 80 even"})
	}
	playScenes(t, scenes)
}
