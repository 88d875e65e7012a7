package memory

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
)

// TestBucket_refund_longResponses holds the documentation to how much of the estimates a busy bucket refunds
// that drains in a minute. Responses take half to one and a half times as long as named. What has drained
// cannot come back.
func TestBucket_refund_longResponses(t *testing.T) {
	t.Parallel()
	for took, least := range map[time.Duration]float64{2 * time.Second: 0.995, 10 * time.Second: 0.97, 30 * time.Second: 0.78} {
		now := storetest.Epoch
		m := NewOnClock(func() int64 { return now })
		p := storetest.NewPolicy(t, limiter.Settings{Name: "busy", Algorithm: limiter.TokenBucket, Limit: 6000, Window: time.Minute})
		random := rand.New(rand.NewPCG(1, uint64(took)))
		type open struct {
			check limiter.Check
			ends  int64
		}
		var running []open
		debt := func() int64 {
			s := m.Lock(p, "k")
			defer s.Mu.Unlock()
			return p.Algorithm.Kernel.Decide(s.Get(p, "k", now), now/p.Params.Tick, &p.Params, 0, 0).Next.A
		}
		var owed, refunded int64
		for range 6000 {
			now += storetest.Sec / 10
			kept := running[:0]
			for _, r := range running {
				if r.ends > now {
					kept = append(kept, r)
					continue
				}
				cost := random.Int64N(r.check.Weight + 1)
				before := debt()
				m.Settle(r.check, cost)
				owed, refunded = owed+r.check.Weight-cost, refunded+(before-debt())/p.Params.Window
			}
			running = kept
			for {
				taken := storetest.Decide(t, m, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1 + random.Int64N(200), Refundable: true})
				if !limiter.Allowed(taken) {
					break
				}
				running = append(running, open{taken[0], now + took.Microseconds()/2 + random.Int64N(took.Microseconds())})
			}
		}
		part := float64(refunded) / float64(owed)
		t.Logf("responses of %v: %.1f %% of %d units came back", took, 100*part, owed)
		assert.ErrorIf(t, part < least, "responses of %v: %.1f %% of %d units came back", took, 100*part, owed)
	}
}

// TestMemory_Settle_exact compares windows and logs with the same requests that took their cost at
// first: as soon as all costs are known the same units are left, for all time.
func TestMemory_Settle_exact(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{limiter.FixedWindow, limiter.SlidingWindowCounter, limiter.SlidingWindowLog} {
		for seed, play := range assert.Plays(t, 300, 300) {
			random := rand.New(rand.NewPCG(seed, 1))
			now := storetest.Epoch
			estimated := NewOnClock(func() int64 { return now })
			exact := NewOnClock(func() int64 { return now })
			p := storetest.NewPolicy(t, limiter.Settings{Name: "exact", Algorithm: algorithm, Limit: 1 + random.Int64N(60), Window: 10 * time.Second})
			type open struct {
				check limiter.Check
				cost  int64
			}
			var running []open
			left := func(store limiter.Store) int64 {
				return storetest.Decide(t, store, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Peek: true})[0].Result.Remaining
			}
			end := func(i int) {
				estimated.Settle(running[i].check, running[i].cost)
				running[i] = running[len(running)-1]
				running = running[:len(running)-1]
			}
			for range 60 {
				now += random.Int64N(2 * storetest.Sec)
				if random.IntN(2) == 0 && len(running) > 0 {
					i := random.IntN(len(running))
					play.Step("epoch%+d settle %d units to %d", now-storetest.Epoch, running[i].check.Weight, running[i].cost)
					end(i)
				} else {
					estimate := 1 + random.Int64N(p.Capacity())
					cost := random.Int64N(estimate + 1)
					play.Step("epoch%+d take %d units that are to cost %d, of %d", now-storetest.Epoch, estimate, cost, p.Capacity())
					taken := storetest.Decide(t, estimated, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: estimate, Refundable: true})
					if !limiter.Allowed(taken) {
						continue
					}
					running = append(running, open{taken[0], cost})
					if cost > 0 && !limiter.Allowed(storetest.Decide(t, exact, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: cost})) {
						t.Fatalf("%s: a cost of %d is denied where its estimate of %d passed", algorithm, cost, estimate)
					}
				}
				a, b := left(estimated), left(exact)
				assert.FatalIf(t, a > b, "%s: %d left, more than the %d of exact takes", algorithm, a, b)
			}
			for len(running) > 0 {
				end(0)
			}
			for range 25 {
				a, b := left(estimated), left(exact)
				assert.FatalIf(t, a != b, "%s, %d µs later: %d left, and %d of exact takes", algorithm, now-storetest.Epoch, a, b)
				now += storetest.Sec
			}
		}
	}
}

// TestMemory_Charge_debt holds the documentation to what becomes of 1,000 units that are charged to
// a limit of 10 per 4 seconds: windows forget their units, buckets earn every one of them.
func TestMemory_Charge_debt(t *testing.T) {
	t.Parallel()
	const window = 4 * time.Second
	for _, algorithm := range limiter.Algorithms() {
		t.Run(algorithm, func(t *testing.T) {
			now := storetest.Epoch
			m := NewOnClock(func() int64 { return now })
			p := storetest.NewPolicy(t, limiter.Settings{Algorithm: algorithm, Limit: 10, Window: window})
			storetest.Decide(t, m, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1})
			storetest.ChargeIn(m, []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1000}})
			wait := storetest.Decide(t, m, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1})[0].Result.RetryAfter
			t.Logf("the next request passes after %v", wait)
			least, most := 396*time.Second, 397*time.Second // 1,001 units less the 10 that fit, at 10 per 4 s
			if !p.IsBucket() {
				least, most = time.Microsecond, 2*window
			}
			assert.ErrorIf(t, wait < least || wait > most,
				"the next request passes after %v, want %v to %v", wait, least, most)
			now += wait.Microseconds()
			got := storetest.Decide(t, m, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1})[0].Result
			assert.ErrorIf(t, !got.Passes(), "after %v: %+v", wait, got)
		})
	}
}

// TestMemory_Charge_bounds charges what is no charge, and more than there can be.
func TestMemory_Charge_bounds(t *testing.T) {
	t.Parallel()
	for _, algorithm := range limiter.Algorithms() {
		m, p := New(), storetest.DayPolicy(t, "p", algorithm, 10)
		check := limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 3}
		storetest.Decide(t, m, check)
		check.Weight = -5
		storetest.ChargeIn(m, []limiter.Check{check})
		left := storetest.Decide(t, m, limiter.Check{Policy: p, Key: check.Key, Peek: true})[0].Result.Remaining
		assert.ErrorIf(t, left != 7, "%s: %d of 10 are left after 3 and a charge of -5", algorithm, left)
		check.Weight = math.MaxInt64
		storetest.ChargeIn(m, []limiter.Check{check})
		r := storetest.Decide(t, m, limiter.Check{Policy: p, Key: check.Key})[0].Result
		assert.ErrorIf(t, r.Passes() || r.Remaining != 0, "%s: after an enormous charge: %+v", algorithm, r)
	}
}

// TestMemory_full_ResetAll runs requests in a full store, resets and new limits at once; each of
// them takes locks.
func TestMemory_full_ResetAll(t *testing.T) {
	t.Parallel()
	m := New()
	m.Limit(64, nil)
	full := storetest.DayPolicy(t, "full", limiter.FixedWindow, 10)
	for i := range 64 {
		storetest.Decide(t, m, limiter.Check{Policy: full, Key: limiter.EncodeKey(fmt.Sprint(i)), Weight: 1})
	}
	dynamic := storetest.DayPolicy(t, "dynamic", limiter.FixedWindow, 5000)
	var group sync.WaitGroup
	for client := range 4 {
		group.Go(func() {
			for i := range 20_000 {
				_, _ = m.Decide(context.Background(), []limiter.Check{{Policy: dynamic, Key: limiter.EncodeKey(fmt.Sprint(client, i)), Weight: 1}}) // cannot fail
			}
		})
	}
	group.Go(func() {
		for range 2000 {
			m.ResetAll("dynamic")
		}
	})
	group.Go(func() {
		for i := range int64(5000) {
			limited, err := dynamic.WithLimit(1000+i, 0)
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = m.Decide(context.Background(), []limiter.Check{{Policy: limited, Key: limiter.EncodeKey("k"), Weight: 1}}) // cannot fail
		}
	})
	group.Wait()
	assert.ErrorIf(t, m.Len() > 64, "%d states, want 64 at the most", m.Len())
}

// TestMemory_longest_drain takes refundably from a bucket that takes long to drain, in a table with others of
// lower limits. Its serial has to be there for as long as the receipt is valid.
func TestMemory_longest_drain(t *testing.T) {
	now := int64(1_000_000_000_000)
	m := NewOnClock(func() int64 { return now })
	slow := storetest.NewPolicy(t, limiter.Settings{Name: "dynamic", Algorithm: limiter.GCRA, Limit: 1, Window: time.Second, Dynamic: true})
	large := assert.NoError(slow.WithLimit(10, 1000))(t)
	kept := func() bool {
		storetest.Decide(t, m, limiter.Check{Policy: slow, Key: limiter.EncodeKey("other")})
		shard := m.TableOf(large).Shards.Of("k")
		shard.Mu.Lock()
		shard.sweep(now, math.MaxInt)
		shard.Mu.Unlock()
		_, found := shard.Kept("k")
		return found
	}
	storetest.Decide(t, m, limiter.Check{Policy: slow, Key: limiter.EncodeKey("other")})
	for _, refundable := range []bool{false, true} {
		storetest.Decide(t, m, limiter.Check{Policy: large, Key: limiter.EncodeKey("k"), Refundable: refundable})
		now += 90_000_000
		assert.ErrorIf(t, kept() != refundable,
			"after 90 s of 100 in which a full bucket drains: kept is %v, refundable %v", !refundable, refundable)
		now += 11_000_000
		assert.ErrorIf(t, kept(), "a state that has ended is kept, refundable %v", refundable)
	}
}
