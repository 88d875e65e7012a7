package failover

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/deny"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
)

// TestFailover_ban_outage_counted has an outage with a policy that bans and refunds, also where a node
// enforces a part of the limits: only units that stay make a denial an offense.
func TestFailover_ban_outage_counted(t *testing.T) {
	t.Parallel()
	for _, fraction := range []float64{0, 0.5} {
		server := redistest.Start(t)
		f := New(openRedis(t, server, time.Second), memory.New(), Options{LocalFraction: fraction, DenyAge: time.Second})
		p := storetest.NewPolicy(t, limiter.Settings{Name: "counted", Algorithm: limiter.FixedWindow, Limit: 6, Window: 30 * 24 * time.Hour, Ban: []time.Duration{time.Hour}, Refunds: true})
		capacity := 6
		if fraction > 0 {
			capacity = 3
		}
		server.Kill()
		take := func() []limiter.Check {
			checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Refundable: true}}
			source, err := f.Decide(context.Background(), checks)
			redistest.FatalIf(t, err != nil || source != limiter.SourceFallback, "%s, %v", source, err)
			return checks
		}
		var taken [][]limiter.Check
		for range capacity {
			taken = append(taken, take())
		}
		for range 3 {
			r := take()[0].Result
			redistest.FatalIf(t, r.Passes() || r.Banned, "fraction %v: parallel requests that may all be refunded: %+v", fraction, r)
		}
		refundAll(f, taken[0], limiter.SourceFallback)
		for _, checks := range taken[1:] {
			keepAll(f, checks, limiter.SourceFallback)
		}
		last := take()
		redistest.FatalIf(t, !last[0].Result.Passes(), "fraction %v: after a refund: %+v", fraction, last[0].Result)
		r := take()[0].Result
		redistest.FatalIf(t, r.Passes() || r.Banned, "fraction %v: one unit is not known to stay: %+v", fraction, r)
		keepAll(f, last, limiter.SourceFallback)
		r = take()[0].Result
		redistest.ErrorIf(t, !r.BanBegins, "fraction %v: all units stay: %+v", fraction, r)
	}
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
			redistest.WaitFor(t, "the breaker opens", func() error { // the units of a timeout may be charged
				if failing, _ := f.Failing(); !failing {
					oneOf(t, f, q, "other")
					return errors.New("it is closed")
				}
				return nil
			})
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

// TestFailover_ban_bound has more clients banned on Redis than the deny cache and the memory for outages
// hold: both keep to their bounds, and every client stays banned.
func TestFailover_ban_bound(t *testing.T) {
	t.Parallel()
	const bound = 300
	m := memory.New()
	m.Limit(bound, nil)
	f := New(openRedis(t, redistest.Shared(t), 10*time.Second), m, Options{DenyAge: time.Second})
	p := hourBan(t, "bound", 1)
	for i := range 2000 {
		checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey(fmt.Sprint(i)), Weight: 2}}
		for n := range 3 {
			if _, err := f.Decide(context.Background(), checks); err != nil || checks[0].Result.Banned != (n > 0) {
				t.Fatalf("client %d, request %d: %+v, %v", i, n, checks[0].Result, err)
			}
		}
	}
	redistest.ErrorIf(t, m.Len() > bound, "%d keys are kept for outages, want at most %d", m.Len(), bound)
	for i := range f.denied.Shards {
		n := f.denied.Shards[i].Len()
		redistest.ErrorIf(t, n > deny.DenyShardSize, "%d denials are in a shard", n)
	}
	n, err := f.UnbanAll(context.Background(), "bound")
	redistest.ErrorIf(t, n != 2000 || err != nil, "%d bans lifted, %v", n, err)
	for i := range f.denied.Shards {
		n := f.denied.Shards[i].Len()
		redistest.ErrorIf(t, n > 0, "%d denials are left in a shard", n)
	}
}
