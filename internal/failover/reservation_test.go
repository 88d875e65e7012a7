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
)

// awaitingStores returns a store of each kind that awaits refunds.
func awaitingStores(t *testing.T) []*testStore {
	t.Helper()
	stores := testStores(t)
	for _, s := range stores {
		s.SetClock(storetest.Epoch)
		s.f.awaitsRefunds = true
	}
	return stores
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
		"into debt, and too few may":    {[]func(*testStore, []limiter.Check){cost(9), stay}, 1, 0, false},
		"into debt, but enough may":     {[]func(*testStore, []limiter.Check){cost(5)}, 5, 0, true},
		"into debt, one beyond it":      {[]func(*testStore, []limiter.Check){cost(5)}, 6, 0, false},
		"it weighs more than can be":    {nil, 11, 0, false},
		"it reserves more than can be ": {nil, 1, 10, false},
	} {
		for _, s := range awaitingStores(t) {
			for _, algorithm := range limiter.Algorithms() {
				p := storetest.RefundingPolicy(t, "awaits", algorithm, 10)
				key := limiter.EncodeKey(name + algorithm)
				var reserved [][]limiter.Check
				for _, weight := range []int64{4, 4, 2} {
					reserved = append(reserved, storetest.Decide(t, s, limiter.Check{Policy: p, Key: key, Weight: weight, Refundable: true}))
				}
				for i, end := range test.ends {
					end(s, reserved[i])
				}
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
		s.f.denied = NewCache(time.Second)
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

// TestFailover_AwaitsRefunds_refunded_meanwhile has units refunded after a denial was decided and before its answer
// is known.
func TestFailover_AwaitsRefunds_refunded_meanwhile(t *testing.T) {
	t.Parallel()
	for _, s := range awaitingStores(t) {
		p := storetest.RefundingPolicy(t, "meanwhile", limiter.GCRA, 1)
		reserved := storetest.Decide(t, s, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Refundable: true})
		s.f.awaitsRefunds = false
		denied := storetest.Decide(t, s, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Refundable: true})
		s.f.awaitsRefunds = true
		refundAll(s.f, reserved, s.Source)
		s.f.hasten(t.Context(), s.Source, denied, clock.Now().Add(time.Minute))
		assert.Equal(t, denied[0].Result.RetryAfter, time.Second, "%s: the wait", s.Name)
	}
}

// TestFailover_AwaitsRefunds_in_parallel has two right log-ins at once at a limit of 1, in one batch or in two.
func TestFailover_AwaitsRefunds_in_parallel(t *testing.T) {
	t.Parallel()
	for _, s := range awaitingStores(t) {
		p := storetest.RefundingPolicy(t, "parallel", limiter.SlidingWindowCounter, 1)
		for round := range 200 {
			inParallel(4, func(_ int) {
				checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey(fmt.Sprint(round)), Refundable: true}}
				source, err := s.Decide(context.Background(), checks)
				switch wait := checks[0].Result.RetryAfter; {
				case err != nil:
					t.Error(err)
				case wait == 0:
					refundAll(s.f, checks, source)
				case wait != time.Second:
					t.Errorf("%s: wait %v, want a second", s.Name, wait)
				}
			})
		}
	}
}

// TestFailover_AwaitsRefunds_in_an_outage takes from Redis, and then here: what Redis would have to refund does not
// return in an outage.
func TestFailover_AwaitsRefunds_in_an_outage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	f := New(openRedis(t, server), memory.New(), Options{AwaitsRefunds: true, LocalFraction: 0.5})
	p := storetest.RefundingPolicy(t, "outage", limiter.FixedWindow, 4)
	there, here := limiter.EncodeKey("there"), limiter.EncodeKey("here")
	for range 4 {
		storetest.Decide(t, f, limiter.Check{Policy: p, Key: there, Refundable: true})
	}
	server.Kill()
	for range 2 {
		storetest.Decide(t, f, limiter.Check{Policy: p, Key: here, Refundable: true})
	}
	for key, soon := range map[limiter.EncodedKey]bool{there: false, here: true} {
		if denied := storetest.Decide(t, f, limiter.Check{Policy: p, Key: key, Refundable: true})[0].Result; denied.Passes() || (denied.RetryAfter == time.Second) != soon {
			t.Errorf("%v: %+v; want it denied, a second: %v", key, denied, soon)
		}
	}
}

// TestReservations_sweep has reservations end, one of them by time alone.
func TestReservations_sweep(t *testing.T) {
	t.Parallel()
	f := New(nil, memory.New(), Options{AwaitsRefunds: true})
	p := storetest.RefundingPolicy(t, "sweep", limiter.TokenBucket, 10)
	reserved := storetest.Decide(t, f, limiter.Check{Policy: p, Key: limiter.EncodeKey("refunded"), Refundable: true})
	stays := storetest.Decide(t, f, limiter.Check{Policy: p, Key: limiter.EncodeKey("stays"), Refundable: true})
	storetest.Decide(t, f, limiter.Check{Policy: p, Key: limiter.EncodeKey("forgotten"), Refundable: true})
	refundAll(f, reserved, limiter.SourceMemory)
	refundAll(f, reserved, limiter.SourceMemory)
	keepAll(f, stays, limiter.SourceMemory)
	for _, step := range []struct {
		after time.Duration
		left  int
	}{{0, 2}, {refundSpan, 1}, {25 * time.Hour, 0}} {
		left := f.reserved.sweep(clock.Now().Add(step.after))
		assert.ErrorIf(t, left != step.left, "after %v %d quotas are left, want %d", step.after, left, step.left)
	}
}
