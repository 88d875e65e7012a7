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
			if source, err := f.Decide(context.Background(), checks); err != nil || source != limiter.SourceFallback {
				t.Fatalf("%s, %v", source, err)
			}
			return checks
		}
		var taken [][]limiter.Check
		for range capacity {
			taken = append(taken, take())
		}
		for range 3 {
			if r := take()[0].Result; r.Passes() || r.Banned {
				t.Fatalf("fraction %v: parallel requests that may all be refunded: %+v", fraction, r)
			}
		}
		refundAll(f, taken[0], limiter.SourceFallback)
		for _, checks := range taken[1:] {
			keepAll(f, checks, limiter.SourceFallback)
		}
		last := take()
		if !last[0].Result.Passes() {
			t.Fatalf("fraction %v: after a refund: %+v", fraction, last[0].Result)
		}
		if r := take()[0].Result; r.Passes() || r.Banned {
			t.Fatalf("fraction %v: one unit is not known to stay: %+v", fraction, r)
		}
		keepAll(f, last, limiter.SourceFallback)
		if r := take()[0].Result; !r.BanBegins {
			t.Errorf("fraction %v: all units stay: %+v", fraction, r)
		}
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
				if r, source := oneOf(t, f, q, "k"); !r.Passes() || source != limiter.SourceFallback {
					t.Fatalf("%+v from %s", r, source)
				}
			}
			if r, source := oneOf(t, f, p, "k"); r.Passes() || source != limiter.SourceFallback {
				t.Errorf("without the override: %+v from %s", r, source)
			}
			server.Resume(t)
			redistest.WaitFor(t, "Redis decides again", func() error {
				if r, source := oneOf(t, f, p, "k"); source == limiter.SourceFallback || r.Passes() {
					return fmt.Errorf("%+v from %s", r, source)
				}
				return nil
			})
			check := limiter.Check{Policy: q, Key: limiter.EncodeKey("k"), Peek: true}
			if err := f.shared.Peek(t.Context(), &check); err != nil || check.Result.Remaining != 50-23 {
				t.Errorf("%+v, %v; want 23 of 50 used", check.Result, err)
			}
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
	if m.Len() > bound {
		t.Errorf("%d keys are kept for outages, want at most %d", m.Len(), bound)
	}
	for i := range f.denied.Shards {
		if n := f.denied.Shards[i].Len(); n > deny.DenyShardSize {
			t.Errorf("%d denials are in a shard", n)
		}
	}
	if n, err := f.UnbanAll(context.Background(), "bound"); n != 2000 || err != nil {
		t.Errorf("%d bans lifted, %v", n, err)
	}
	for i := range f.denied.Shards {
		if n := f.denied.Shards[i].Len(); n > 0 {
			t.Errorf("%d denials are left in a shard", n)
		}
	}
}
