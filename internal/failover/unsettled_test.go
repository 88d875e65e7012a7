package failover

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// awaitingStores returns a store of each kind that awaits refunds.
func awaitingStores(t *testing.T) []*testStore {
	t.Helper()
	all := testStores(t)
	for _, s := range all {
		s.SetClock(storetest.Epoch)
		s.f.awaitsRefunds = true
	}
	return all
}

// TestFailover_AwaitsRefunds takes a limit of 10 by two reservations of 4 and one of 2, and has a request denied
// beside them: after some of them have ended, in the ways that there are.
func TestFailover_AwaitsRefunds(t *testing.T) {
	t.Parallel()
	stay, refund := (*testStore).Keep, (*testStore).Refund
	cost := func(units int64) func(s *testStore, c []limiter.Check) {
		return func(s *testStore, c []limiter.Check) { s.SettleCost(c[0], units) }
	}
	for name, test := range map[string]struct {
		ends            []func(s *testStore, c []limiter.Check) // of the reservations
		weight, reserve int64
		soon            bool
	}{
		"all may return":                {nil, 1, 0, true},
		"just enough may return":        {[]func(*testStore, []limiter.Check){stay}, 6, 0, true},
		"too few may return":            {[]func(*testStore, []limiter.Check){stay}, 7, 0, false},
		"too few, but for others":       {[]func(*testStore, []limiter.Check){stay}, 4, 3, false},
		"just enough with others":       {[]func(*testStore, []limiter.Check){stay}, 4, 2, true},
		"none may return":               {[]func(*testStore, []limiter.Check){stay, stay, stay}, 1, 0, false},
		"some have returned":            {[]func(*testStore, []limiter.Check){refund, stay, stay}, 5, 0, false},
		"some have, more may":           {[]func(*testStore, []limiter.Check){refund, stay}, 6, 0, true},
		"it cost as much":               {[]func(*testStore, []limiter.Check){cost(4), cost(4), cost(2)}, 1, 0, false},
		"it cost less, more may":        {[]func(*testStore, []limiter.Check){cost(1), stay}, 5, 0, true},
		"it cost less, too few may":     {[]func(*testStore, []limiter.Check){cost(1), stay}, 6, 0, false},
		"a debt beside them is unknown": {[]func(*testStore, []limiter.Check){cost(9), stay}, 1, 0, true},
		"into debt, but enough may":     {[]func(*testStore, []limiter.Check){cost(5)}, 5, 0, true},
		"it weighs more than can be":    {nil, 11, 0, false},
		"it reserves more than can be ": {nil, 1, 10, false},
	} {
		for _, s := range awaitingStores(t) {
			for _, algorithm := range limiter.Algorithms() {
				p := storetest.RefundingPolicy(t, "awaits", algorithm, 10)
				key := limiter.EncodeKey(name + algorithm)
				var reserved [][]limiter.Check
				unsettled := int64(10)
				for _, weight := range []int64{4, 4, 2} {
					reserved = append(reserved, storetest.Decide(t, s, limiter.Check{Policy: p, Key: key, Weight: weight, Refundable: true}))
				}
				for i, end := range test.ends {
					unsettled -= reserved[i][0].Weight
					end(s, reserved[i])
				}
				// Another connection may bring the answer of a denial before that of a settlement that Redis ran first.
				assert.WaitFor(t, "what has ended is settled", func() error {
					if units := s.f.unsettled.of(&reserved[0][0], clock.Now()); units != unsettled {
						return fmt.Errorf("%d units are unsettled, want %d", units, unsettled)
					}
					return nil
				})
				denied := storetest.Decide(t, s, limiter.Check{Policy: p, Key: key, Weight: test.weight, Reserve: test.reserve, Refundable: true})[0].Result
				assert.ErrorIf(t, denied.Passes() || (denied.RetryAfter == time.Second) != test.soon,
					"%s, %s, %s: %+v; want it denied, a second: %v", s.Name, algorithm, name, denied, test.soon)
			}
		}
	}
}

// TestFailover_AwaitsRefunds_other_answers has a ban, another policy that denies for longer, and a deny cache.
func TestFailover_AwaitsRefunds_other_answers(t *testing.T) {
	t.Parallel()
	for _, s := range awaitingStores(t) {
		s.f.denied = newCache(time.Second)
		logins, all := storetest.RefundingPolicy(t, "logins", limiter.FixedWindow, 1), storetest.DayPolicy(t, "all", limiter.FixedWindow, 1)
		banning := storetest.NewPolicy(t, limiter.Settings{Name: "banning", Algorithm: limiter.FixedWindow, Limit: 1, Window: storetest.LongWindow(0), Ban: []time.Duration{time.Hour}, Refunds: true})
		key := limiter.EncodeKey("k")
		reserved := storetest.Decide(t, s, limiter.Check{Policy: logins, Key: key, Refundable: true}, limiter.Check{Policy: all, Key: key}, limiter.Check{Policy: banning, Key: key})
		denied := storetest.Decide(t, s, limiter.Check{Policy: logins, Key: key, Refundable: true}, limiter.Check{Policy: all, Key: key})
		assert.ErrorIf(t, denied[0].Result.RetryAfter != time.Second || denied[1].Result.RetryAfter <= time.Second || limiter.Binding(denied) != 1,
			"%s: %+v; want the policy to bind that refunds nothing", s.Name, denied)
		s.Await()
		banned := storetest.Decide(t, s, limiter.Check{Policy: banning, Key: key, Refundable: true})[0].Result
		assert.ErrorIf(t, !banned.BanBegins || banned.RetryAfter < time.Hour, "%s: %+v; want a ban", s.Name, banned)
		s.Refund(reserved[:1])
		again := storetest.Decide(t, s, limiter.Check{Policy: logins, Key: key, Refundable: true})[0].Result
		assert.ErrorIf(t, !again.Passes(), "%s: %+v; want it to pass after the refund", s.Name, again)
	}
}

// TestFailover_AwaitsRefunds_in_parallel has four right log-ins at once at a limit of 1, none of which has ended.
func TestFailover_AwaitsRefunds_in_parallel(t *testing.T) {
	t.Parallel()
	f := New(nil, memory.New(), Behavior{AwaitsRefunds: true})
	p := storetest.RefundingPolicy(t, "parallel", limiter.SlidingWindowCounter, 1)
	for round := range 200 {
		storetest.InParallel(4, func(_ int) {
			denied := []limiter.Check{{Policy: p, Key: limiter.EncodeKey(fmt.Sprint(round)), Refundable: true}}
			if _, err := f.Decide(context.Background(), denied); err != nil {
				t.Error(err)
			}
			if wait := denied[0].Result.RetryAfter; wait != 0 && wait != time.Second {
				t.Errorf("wait %v, want a second", wait)
			}
		})
	}
}

// TestFailover_AwaitsRefunds_in_an_outage takes from Redis, and then here.
func TestFailover_AwaitsRefunds_in_an_outage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	f := New(stores.Open(t, server), memory.New(), Behavior{AwaitsRefunds: true, LocalFraction: 0.5})
	p := storetest.RefundingPolicy(t, "outage", limiter.FixedWindow, 4)
	there, here := limiter.EncodeKey("there"), limiter.EncodeKey("here")
	for range 4 {
		storetest.Decide(t, f, limiter.Check{Policy: p, Key: there, Refundable: true})
	}
	server.Kill()
	for range 2 {
		storetest.Decide(t, f, limiter.Check{Policy: p, Key: here, Refundable: true})
	}
	for _, key := range []limiter.EncodedKey{there, here} {
		denied := storetest.Decide(t, f, limiter.Check{Policy: p, Key: key, Refundable: true})[0].Result
		assert.Equal(t, denied.RetryAfter, time.Second, "%v: the wait", key)
	}
}

// TestUnsettled_leaves_nothing has units be refunded twice, kept, and drain before they are settled.
func TestUnsettled_leaves_nothing(t *testing.T) {
	t.Parallel()
	f := New(nil, memory.New(), Behavior{AwaitsRefunds: true})
	p := storetest.RefundingPolicy(t, "left", limiter.TokenBucket, 10)
	take := func() []limiter.Check {
		return storetest.Decide(t, f, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 2, Refundable: true})
	}
	wantUnits := func(what string, c *limiter.Check, now clock.Moment, want int64) {
		t.Helper()
		assert.Equal(t, f.unsettled.of(c, now), want, "%s", what)
	}
	refunded, kept, open := take(), take(), take()
	wantUnits("three takes", &open[0], clock.Now(), 6)
	refundAll(f, refunded, limiter.SourceMemory)
	refundAll(f, refunded, limiter.SourceMemory)
	wantUnits("one was refunded, twice", &open[0], clock.Now(), 4)
	keepAll(f, kept, limiter.SourceMemory)
	wantUnits("another stays", &open[0], clock.Now(), 2)
	wantUnits("all have drained", &open[0], clock.Now().Add(25*time.Hour), 0)
	refundAll(f, open, limiter.SourceMemory)
	for s := range f.unsettled.shards.All() {
		assert.Equal(t, len(s.quotas), 0, "quotas that are left")
	}
}
