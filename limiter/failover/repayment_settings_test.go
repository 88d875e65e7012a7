package failover

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
)

// TestRepayment_settings pays an outage back with every setting that changes keys, clocks or limits.
func TestRepayment_settings(t *testing.T) {
	t.Parallel()
	window := windowOfBothClocks(time.Hour)
	for _, s := range []struct {
		name    string
		ahead   time.Duration // of Redis's clock
		format  limiter.KeyFormat
		options Options
		slotted bool
		admits  int64 // of a limit of 10
	}{
		{name: "Redis an hour ahead", ahead: time.Hour, admits: 7},
		{name: "Redis an hour behind", ahead: -time.Hour, admits: 7},
		{name: "hidden keys", format: limiter.KeyFormat{Secret: "secret"}, admits: 7},
		{name: "local fraction", options: Options{LocalFraction: 0.5}, admits: 3},
		{name: "forgiven", options: Options{ForgiveOutages: true}, admits: 7},
		{name: "a proxy that wants one slot", slotted: true, admits: 7},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.StartAt(t, s.ahead)
			f := New(newTestRedis(t, server, 10*time.Second, s.format), memory.New(), s.options)
			f.shared.Slotted.Store(s.slotted)
			for _, algorithm := range limiter.Algorithms()[:5] {
				p := storetest.NewPolicy(t, limiter.Settings{Name: algorithm, Algorithm: algorithm, Limit: 10, Window: window})
				for range 3 {
					result, err := limiter.Allow(t.Context(), f, p, "k")
					redistest.FatalIf(t, err != nil || !result.Passes(), "%+v %+v", result, err)
				}
				keepOpen(f.shared)
				for admitted := int64(0); ; admitted++ {
					result := redistest.NoError(limiter.Allow(t.Context(), f, p, "k"))(t)
					if result.Passes() {
						continue
					}
					redistest.ErrorIf(t, admitted != s.admits,
						"%s: %d units were admitted, want %d", algorithm, admitted, s.admits)
					break
				}
				f.shared.Topology.AnyNode.Breaker.Close()
				left := 7 - s.admits
				if s.options.ForgiveOutages {
					left = 7
				}
				wantRemaining(t, f, p, "k", left)
			}
		})
	}
}

// windowOfBothClocks returns a window of a day or more that clocks so far apart are in together now, and for an hour
// from now. An outage begins anew, and a debt has decayed, where only one of them is in the next one.
func windowOfBothClocks(apart time.Duration) time.Duration {
	now, margin := time.Duration(time.Now().UnixNano()), apart+time.Hour
	for window := 24 * time.Hour; ; window += time.Hour {
		if passed := now % window; passed > margin && passed < window-margin {
			return window
		}
	}
}

// TestRepayment_limits has requests bring limits of their own: the last one caps what is settled.
func TestRepayment_limits(t *testing.T) {
	t.Parallel()
	n := newSharedOutageNode(t)
	for _, algorithm := range limiter.Algorithms() {
		large := storetest.NewPolicy(t, limiter.Settings{Name: "limits-" + algorithm, Algorithm: algorithm, Limit: 100, Window: time.Hour, Dynamic: true})
		small := redistest.NoError(large.WithLimit(10, 0))(t)
		n.settled.Store(0)
		n.away()
		n.take(t, large, 4)
		n.take(t, small, 3)
		n.take(t, large, 8)
		n.back()
		n.wantRepaid(t, large, 15, 85)
		n.away()
		n.take(t, large, 5)
		redistest.ErrorIf(t, n.take(t, small, 1), "%s: the small limit admits one more", algorithm)
		n.back()
		n.wantRepaid(t, large, 20, 80)
	}
}

// TestRepayment_policies denies requests by the second of two policies: the first owes nothing.
func TestRepayment_policies(t *testing.T) {
	t.Parallel()
	n := newSharedOutageNode(t)
	wide, narrow := storetest.DayPolicy(t, "wide", limiter.FixedWindow, 10), storetest.DayPolicy(t, "narrow", limiter.TokenBucket, 2)
	n.away()
	for range 5 {
		storetest.Decide(t, n, limiter.Check{Policy: wide, Key: limiter.EncodeKey("k")}, limiter.Check{Policy: narrow, Key: limiter.EncodeKey("k")})
	}
	n.back()
	wantRemaining(t, n, wide, "k", 8)
	n.wantRepaid(t, narrow, 4, 0)
}

// TestRepayment_overridden raises the limit of a client by an override before an outage, in which the
// override ends. What was admitted by the raised limit is settled, and counts under the configured one.
func TestRepayment_overridden(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{limiter.FixedWindow, limiter.SlidingWindowCounter, limiter.SlidingWindowLog, limiter.GCRA} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			f := New(openRedis(t, server, time.Second), memory.New(), Options{DenyAge: time.Second})
			p := storetest.NewPolicy(t, limiter.Settings{Name: "settled", Algorithm: algorithm, Limit: 5, Window: 30 * 24 * time.Hour})
			q := raised(t, p)
			ask(t, f, q, "k", 3)
			server.Pause(t)
			waitFailing(t, f, true, func() { oneOf(t, f, q, "other") }) // the units of a timeout may be charged
			for range 20 {
				r, source := oneOf(t, f, q, "k")
				redistest.FatalIf(t, !r.Passes() || source != limiter.SourceFallback, "%+v from %s", r, source)
			}
			r, source := oneOf(t, f, p, "k")
			redistest.ErrorIf(t, r.Passes() || source != limiter.SourceFallback, "without the override: %+v from %s", r, source)
			server.Resume(t)
			redistest.Retry(t, "Redis decides again", func() (again bool, seen any) {
				r, source := oneOf(t, f, p, "k")
				return source == limiter.SourceFallback || r.Passes(), fmt.Sprintf("%+v from %s", r, source)
			})
			check := limiter.Check{Policy: q, Key: limiter.EncodeKey("k"), Peek: true}
			err := f.shared.Peek(t.Context(), &check)
			redistest.ErrorIf(t, err != nil || check.Result.Remaining != 50-23, "%+v, %v; want 23 of 50 used", check.Result, err)
		})
	}
}
