package failover

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// failovers returns stores whose requests are decided on Redis, in process, in an outage, and in an
// outage by half of the limit.
func failovers(t *testing.T) map[string]*Store {
	t.Helper()
	server := redistest.Shared(t)
	down := stores.Open(t, server)
	keepOpen(down)
	return map[string]*Store{
		"redis":    New(stores.Open(t, server), memory.New(), Behavior{DenyAge: time.Second}),
		"memory":   New(nil, memory.New(), Behavior{}),
		"fallback": New(down, memory.New(), Behavior{}),
		"part":     New(down, memory.New(), Behavior{LocalFraction: 0.5}),
	}
}

// keepOpen opens the breaker of a store for good.
func keepOpen(r *redis.Store) {
	r.Topology.AnyNode.Breaker.Failure(&limiter.UndecidedError{Kind: "refused", Err: errors.New("down")})
}

// closeAgain closes the breaker of a store. The first request of a quota waits for what is owed.
func closeAgain(r *redis.Store) {
	stores.Follow(r)
	r.Topology.AnyNode.Breaker.Close()
}

// TestFailover_Charge_outage_begins charges requests that Redis has decided when it refuses to write. No charge has
// run there: all are kept and made when Redis decides again, and none is reported as lost. Where nothing is kept
// of outages each is, and where there is no room to keep it.
func TestFailover_Charge_outage_begins(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"kept", "forgiven", "no room"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, reported, setPermissions := stores.OpenLimited(t)
			local := memory.New()
			f := New(r, local, Behavior{ForgiveOutages: name == "forgiven"})
			p := storetest.DayPolicy(t, "charged", limiter.SlidingWindowCounter, 1000)
			if name == "no room" {
				local.Limit(1, nil)
				f.ledger.size.Store(1)
			}
			setPermissions("-set")
			for range 3 {
				chargeAll(f, []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 100}}, limiter.SourceRedis)
				assert.Retry(t, "the charge is answered", func() (again bool, seen any) {
					return r.Uses.Count.Load() > 1, "it is under way"
				})
			}
			if name != "kept" {
				stores.WaitReported(t, reported, "outage:auth lost:auth lost:breaker lost:breaker")
				return
			}
			stores.WaitReported(t, reported, "outage:auth")
			setPermissions("+set")
			stores.WaitLeft(t, r, p, 700)
			assert.Equal(t, reported.String(), "outage:auth recovery", "what is reported")
		})
	}
}

// waitForLeft waits until so many units remain in Redis, and in this process for an outage.
func waitForLeft(t *testing.T, f *Store, p *limiter.Policy, key limiter.EncodedKey, there, here int64) {
	t.Helper()
	assert.WaitFor(t, "the units are known there and here", func() error {
		shared, local := limiter.Check{Policy: p, Key: key, Peek: true}, limiter.Check{Policy: p, Key: key, Peek: true}
		err := f.shared.Peek(t.Context(), &shared)
		f.PeekLocal(&local)
		if err != nil || shared.Result.Remaining != there || local.Result.Remaining != here {
			return fmt.Errorf("%s, %v: %d remain in Redis, %d here, error %w", p.Name(), key, shared.Result.Remaining, local.Result.Remaining, err)
		}
		return nil
	})
}

// TestLastSeen_settled refunds and charges after an answer: an outage goes on from what Redis has then.
func TestLastSeen_settled(t *testing.T) {
	t.Parallel()
	f := New(stores.Open(t, redistest.Shared(t)), memory.New(), Behavior{})
	for _, p := range storetest.RefundingPolicies(t, 100) {
		for _, check := range []limiter.Check{{Weight: 20, Refundable: true}, {Weight: 1}, {Peek: true}} {
			for _, costs := range [][]int64{{0}, {5}, {0, 20}, {30, 0}, {20, 0, 10, 40}, {50}, {100}, {5000}} {
				check.Policy, check.Key = p, limiter.EncodeKey(fmt.Sprint(check.Weight, costs))
				var decided []limiter.Check
				for range costs {
					decided = append(decided, storetest.Decide(t, f, check)...)
				}
				left := int64(100)
				for i, cost := range costs {
					f.Settle(decided[i], cost, limiter.SourceRedis)
					if !check.Refundable {
						cost = max(cost, check.Weight) // which stays
					}
					left = max(0, left-cost)
				}
				waitForLeft(t, f, p, check.Key, left, left)
			}
		}
	}
}

// TestLastSeen_refund_in_parallel has requests of one client at once, in batches with one another's refunds.
func TestLastSeen_refund_in_parallel(t *testing.T) {
	t.Parallel()
	f := New(stores.Open(t, redistest.Shared(t)), memory.New(), Behavior{})
	for _, p := range storetest.RefundingPolicies(t, 200) {
		storetest.InParallel(20, func(i int) {
			for j := range 5 {
				reserved := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1 + int64(i%3), Refundable: true}}
				source, err := f.Decide(context.Background(), reserved)
				assert.ErrorIf(t, err != nil || source != limiter.SourceRedis, "source %s, error %v", source, err)
				if i > 0 || j > 0 {
					refundAll(f, reserved, source)
				}
			}
		})
		waitForLeft(t, f, p, limiter.EncodeKey("k"), 199, 199)
	}
}

// TestLastSeen_refund_local_share has the share of one unit to give when Redis has refunded the only one taken.
func TestLastSeen_refund_local_share(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	f := New(stores.Open(t, server), memory.New(), Behavior{LocalFraction: 0.34})
	policies := storetest.RefundingPolicies(t, 5)
	for _, p := range policies {
		refundAll(f, storetest.Decide(t, f, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Refundable: true}), limiter.SourceRedis)
		waitForLeft(t, f, p, limiter.EncodeKey("k"), 5, 1)
	}
	server.Kill()
	for _, p := range policies {
		check := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Refundable: true}}
		source, err := f.Decide(t.Context(), check)
		assert.ErrorIf(t, err != nil || source != limiter.SourceFallback || !limiter.Allowed(check),
			"%s: source %s, result %+v, error %v; want it allowed", p.Name(), source, check[0].Result, err)
		refundAll(f, check, limiter.SourceRedis) // which Redis does not do
		local := limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Peek: true}
		if f.PeekLocal(&local); local.Result.Remaining != 0 {
			t.Errorf("%s: %d remain of a refund that Redis has not done", p.Name(), local.Result.Remaining)
		}
	}
}
