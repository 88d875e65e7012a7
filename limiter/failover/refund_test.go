package failover

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis"
)

// failovers returns stores whose requests are decided on Redis, in process, in an outage, and in an
// outage by half of the limit.
func failovers(t *testing.T) map[string]*Store {
	t.Helper()
	server := redistest.Shared(t)
	down := openRedis(t, server, time.Second)
	keepOpen(down)
	return map[string]*Store{
		"redis":    New(openRedis(t, server, 10*time.Second), memory.New(), Options{DenyAge: time.Second}),
		"memory":   New(nil, memory.New(), Options{}),
		"fallback": New(down, memory.New(), Options{}),
		"part":     New(down, memory.New(), Options{LocalFraction: 0.5}),
	}
}

// keepOpen opens the breaker of a store for good.
func keepOpen(r *redis.Store) {
	r.Topology.AnyNode.Breaker.Failure(&limiter.UndecidedError{Kind: "refused", Err: errors.New("down")})
}

// TestFailover_Refund has every algorithm take and refund, on Redis, in process, in an outage,
// and with a fraction of the limit.
func TestFailover_Refund(t *testing.T) {
	t.Parallel()
	for name, f := range failovers(t) {
		for _, algorithm := range limiter.Algorithms() {
			t.Run(name+"/"+algorithm, func(t *testing.T) {
				capacity := int64(4)
				if name == "part" {
					capacity = 2
				}
				p := storetest.RefundingPolicy(t, "give-"+name+"-"+algorithm, algorithm, 4)
				take := func() ([]limiter.Check, limiter.Source) {
					checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1, Refundable: true}}
					source, err := f.Decide(context.Background(), checks)
					noError(t, err)
					return checks, source
				}
				var last []limiter.Check
				var source limiter.Source
				for range capacity {
					if last, source = take(); !limiter.Allowed(last) {
						t.Fatalf("denied: %+v", last)
					}
				}
				denied, _ := take()
				redistest.FatalIf(t, limiter.Allowed(denied), "allowed: %+v", denied)
				refundAll(f, last, source)
				redistest.Retry(t, "a unit is there again, at once", func() (again bool, seen any) {
					got, _ := take()
					return !limiter.Allowed(got), fmt.Sprintf("%+v", got)
				})
				denied, _ = take()
				redistest.ErrorIf(t, limiter.Allowed(denied), "more was refunded than was taken: %+v", denied)
			})
		}
	}
}

// TestFailover_Charge_outage shows that a debt is not lost to a failure
// between the decision and the charge.
func TestFailover_Charge_outage(t *testing.T) {
	t.Parallel()
	r := openRedis(t, redistest.Shared(t), 10*time.Second)
	f := New(r, memory.New(), Options{})
	checks := []limiter.Check{{Policy: storetest.DayPolicy(t, "late", limiter.GCRA, 100), Key: limiter.EncodeKey("k"), Weight: 1}}
	source, err := f.Decide(context.Background(), checks)
	redistest.FatalIf(t, err != nil || source != limiter.SourceRedis, "%+v %+v", source, err)
	keepOpen(r)
	checks[0].Weight = 1000
	chargeAll(f, checks, source)
	checks[0].Weight = 1
	source, err = f.Decide(context.Background(), checks)
	redistest.ErrorIf(t, err != nil || source != limiter.SourceFallback || limiter.Allowed(checks), "%v, %v, %+v", source, err, checks)
}

// TestFailover_Charge_outage_begins charges requests that Redis has decided when it refuses to write. No charge has
// run there: all are kept and made when Redis decides again, and none is reported as lost. Where nothing is kept
// of outages each is, and where there is no room to keep it.
func TestFailover_Charge_outage_begins(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"kept", "forgiven", "no room"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, reported, setPermissions := openLimited(t)
			local := memory.New()
			f := New(r, local, Options{ForgiveOutages: name == "forgiven"})
			p := storetest.DayPolicy(t, "charged", limiter.SlidingWindowCounter, 1000)
			if name == "no room" {
				local.Limit(1, nil)
				f.ledger.size.Store(1)
			}
			setPermissions("-set")
			for range 3 {
				chargeAll(f, []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 100}}, limiter.SourceRedis)
				redistest.Retry(t, "the charge is answered", func() (again bool, seen any) {
					return r.Uses.Count.Load() > 1, "it is under way"
				})
			}
			if name != "kept" {
				waitReported(t, reported, "outage:auth lost:auth lost:breaker lost:breaker")
				return
			}
			waitReported(t, reported, "outage:auth")
			setPermissions("+set")
			redistest.Retry(t, "the charges are made", func() (again bool, seen any) {
				look := limiter.Check{Policy: p, Key: limiter.EncodeKey("k")}
				err := r.Peek(t.Context(), &look)
				return err != nil || look.Result.Remaining != 700, fmt.Sprintf("%d remain, %v", look.Result.Remaining, err)
			})
			got := reported.String()
			redistest.ErrorIf(t, got != "outage:auth recovery", "reported %s", got)
		})
	}
}
