package failover

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// lookAt decides a look of one unit of the key "k", and returns the check.
func lookAt(t *testing.T, f *Store, p *limiter.Policy, inFlight int64) limiter.Check {
	t.Helper()
	return storetest.Decide(t, f, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1, Look: true, InFlight: inFlight})[0]
}

// TestFailover_looks_in_flight has looks of one quota on their way on a node: so many as there may be, and one more.
func TestFailover_looks_in_flight(t *testing.T) {
	t.Parallel()
	for name, f := range bothStores(t, Behavior{AwaitsRefunds: true, DenyAge: time.Second}) {
		p := storetest.RefundingPolicy(t, "looks-"+name, limiter.SlidingWindowCounter, 10)
		var looks []limiter.Check
		for range 3 {
			c := lookAt(t, f, p, 3)
			assert.ErrorIf(t, !c.Result.Passes() || c.Result.Remaining != 10, "%s: a look got %+v", name, c.Result)
			looks = append(looks, c)
		}
		if c := lookAt(t, f, p, 3); c.Result.RetryAfter != time.Second {
			t.Errorf("%s: a look too many got %+v", name, c.Result)
		}
		assert.ErrorIf(t, f.Looking(p) != 3 || f.LookingAt(&looks[0]) != 3, "%s: %d units look", name, f.Looking(p))
		f.Settle(looks[0], 0, limiter.Source(name))
		if c := lookAt(t, f, p, 3); !c.Result.Passes() {
			t.Errorf("%s: a look after another has ended got %+v", name, c.Result)
		} else {
			f.Settle(c, 0, limiter.Source(name))
		}
		for _, c := range looks[1:] {
			f.Settle(c, 1, limiter.Source(name))
		}
		wantLooking(t, f, p, 0)
		storetest.WantRemaining(t, f, p, "k", 8)
		heavy := storetest.Decide(t, f, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 5, Look: true, InFlight: 3})[0]
		assert.ErrorIf(t, !heavy.Result.Passes(), "%s: a look of more units than may be on their way, alone, got %+v", name, heavy.Result)
		f.Settle(heavy, 0, limiter.Source(name))
	}
}

// wantLooking waits until so many units look.
func wantLooking(t *testing.T, f *Store, p *limiter.Policy, want int64) {
	t.Helper()
	assert.Retry(t, fmt.Sprint(want, " units look"), func() (again bool, seen any) {
		looking := f.Looking(p)
		return looking != want, looking
	})
}

// TestFailover_looks_see_no_reservations has five slow requests take a limit of 5, which may all be refunded: looks pass beside
// them, takes do not. Once a unit stays, one less is left out.
func TestFailover_looks_see_no_reservations(t *testing.T) {
	t.Parallel()
	for name, f := range bothStores(t, Behavior{AwaitsRefunds: true, DenyAge: time.Second}) {
		p := storetest.RefundingPolicy(t, "beside-"+name, limiter.TokenBucket, 5)
		key := limiter.EncodeKey("k")
		var taken []limiter.Check
		for range 5 {
			taken = append(taken, storetest.Decide(t, f, limiter.Check{Policy: p, Key: key, Weight: 1, Refundable: true})...)
		}
		take := storetest.Decide(t, f, limiter.Check{Policy: p, Key: key, Weight: 1, Refundable: true})[0]
		assert.ErrorIf(t, take.Result.Passes(), "%s: a sixth take got %+v", name, take.Result)
		for range 30 {
			c := lookAt(t, f, p, 256)
			assert.ErrorIf(t, !c.Result.Passes(), "%s: a look got %+v", name, c.Result)
			f.Settle(c, 0, limiter.Source(name))
		}
		for _, c := range taken {
			f.Settle(c, 1, limiter.Source(name))
		}
		assert.Retry(t, "a look is denied", func() (again bool, seen any) {
			c := lookAt(t, f, p, 256)
			if c.Result.Passes() {
				f.Settle(c, 0, limiter.Source(name))
			}
			return c.Result.Passes(), c.Result
		})
		wantLooking(t, f, p, 0)
	}
}

// TestFailover_looks_bound has clients of three nodes take and look at one quota at once, and leave while they are decided. What
// counts is at most the limit and what may be on its way on each node, whatever comes between, and none is on its way at the end.
func TestFailover_looks_bound(t *testing.T) {
	t.Parallel()
	const limit, inFlight, nodes, requests = 20, 7, 3, 400
	for seed := range assert.Seeds(3, 30) {
		server := redistest.Shared(t)
		p := storetest.RefundingPolicy(t, fmt.Sprint("bound-", seed), limiter.SlidingWindowCounter, limit)
		var counted, passed atomic.Int64
		failovers := make([]*Store, nodes)
		for i := range failovers {
			failovers[i] = New(stores.Open(t, server), memory.New(), Behavior{AwaitsRefunds: true, DenyAge: time.Second})
		}
		storetest.InParallel(requests, func(i int) {
			random, f := rand.New(rand.NewPCG(seed, uint64(i))), failovers[i%nodes]
			check := limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1, Look: true, InFlight: inFlight}
			if random.IntN(4) == 0 {
				check.Look, check.InFlight, check.Refundable = false, 0, true
			}
			checks := []limiter.Check{check}
			source, err := f.Decide(t.Context(), checks)
			if err != nil || !checks[0].Result.Passes() {
				return
			}
			passed.Add(1)
			<-time.After(time.Duration(random.IntN(3000)) * time.Microsecond)
			cost := int64(random.IntN(3) / 1 % 2)
			counted.Add(cost)
			f.Settle(checks[0], cost, source)
		})
		for _, f := range failovers {
			wantLooking(t, f, p, 0)
		}
		most := int64(limit + nodes*inFlight)
		assert.ErrorIf(t, counted.Load() > most || passed.Load() < limit, "seed %d: %d of %d that passed count, of at most %d",
			seed, counted.Load(), passed.Load(), most)
	}
}
