package failover

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
)

// TestFailover_Settle settles estimates to costs with every algorithm: on Redis, in process, in an
// outage, and with half of the limit, which counts at most its own capacity of either.
func TestFailover_Settle(t *testing.T) {
	t.Parallel()
	const theRest = -1 // of the quota, behind which a request is denied until the rest is refunded
	steps := []struct{ estimate, cost, left, part int64 }{
		{100, 100, 900, 400},
		{100, 40, 860, 360},
		{100, 0, 860, 360},
		{100, -1, 860, 360},
		{50, 60, 800, 300},
		{0, 1, 799, 299}, // a weight of 0 is 1
		{0, 2, 797, 297},
		{100, 0, 797, 297},
		{theRest, 0, 797, 297},
		{theRest, 1, 796, 296},
		{600, 1, 795, 296}, // denied by half of the limit
		{290, 795, 0, 0},   // 500 are as many as half of the limit has
		{1, 1, 0, 0},       // denied
	}
	for name, f := range failovers(t) {
		for _, algorithm := range limiter.Algorithms() {
			t.Run(name+"/"+algorithm, func(t *testing.T) {
				p := storetest.RefundingPolicy(t, "cost-"+name+"-"+algorithm, algorithm, 1000)
				left := int64(1000)
				if name == "part" {
					left = 500
				}
				for _, step := range steps {
					check := limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: step.estimate, Refundable: true}
					if step.estimate == theRest {
						check.Weight = left
					}
					checks := []limiter.Check{check}
					source := assert.NoError(f.Decide(t.Context(), checks))(t)
					if step.estimate == theRest {
						assert.FatalIf(t, !limiter.Allowed(checks), "the rest is denied: %+v", checks)
						denied := storetest.Decide(t, f, limiter.Check{Policy: p, Key: check.Key, Refundable: true})
						assert.FatalIf(t, limiter.Allowed(denied), "allowed: %+v", denied)
					}
					if checks[0].Result.Passes() {
						f.Settle(checks[0], step.cost, source)
					}
					if left = step.left; name == "part" {
						left = step.part
					}
					checkLeft(t, f, p, left)
				}
			})
		}
	}
}

// TestFailover_Settle_fraction takes an estimate above half of a limit, which that counts as its whole
// capacity.
func TestFailover_Settle_fraction(t *testing.T) {
	t.Parallel()
	f := failovers(t)["part"]
	for cost, left := range map[int64]int64{0: 500, 1: 499, 300: 200, 499: 1, 500: 0, 550: 0, 600: 0, 700: 0} {
		p := storetest.DayPolicy(t, fmt.Sprint("fraction-", cost), limiter.FixedWindow, 1000)
		checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 600, Refundable: true}}
		source, err := f.Decide(t.Context(), checks)
		assert.FatalIf(t, err != nil || !limiter.Allowed(checks), "%+v %+v", checks, err)
		f.Settle(checks[0], cost, source)
		checkLeft(t, f, p, left)
	}
}

// TestFailover_Settle_others charges the rest of a cost whatever the check was, into debt if need be, and refunds only
// what was reserved.
func TestFailover_Settle_others(t *testing.T) {
	t.Parallel()
	for name, f := range failovers(t) {
		for _, algorithm := range limiter.Algorithms() {
			p := storetest.DayPolicy(t, "others-"+name+"-"+algorithm, algorithm, 400)
			for _, check := range []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 10}, {Policy: p, Key: limiter.EncodeKey("k"), Peek: true}} {
				checks := []limiter.Check{check}
				source := assert.NoError(f.Decide(t.Context(), checks))(t)
				f.Settle(checks[0], 0, source)
				f.Settle(checks[0], 5, source)
				f.Settle(checks[0], 20, source)
			}
			want := int64(400 - 20 - 5 - 20) // a peek took nothing
			if name == "part" {
				want -= 200
			}
			checkLeft(t, f, p, want)
			peek := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Peek: true}}
			source := assert.NoError(f.Decide(t.Context(), peek))(t)
			f.Settle(peek[0], 5000, source)
			checkLeft(t, f, p, 0)
			assert.ErrorIf(t, limiter.Allowed(storetest.Decide(t, f, limiter.Check{Policy: p, Key: limiter.EncodeKey("k")})),
				"%s: a unit passes in debt", p.Name())
		}
	}
}

// TestFailover_Settle_ban settles to more than the estimate: all of the cost stays, and the next denial bans.
func TestFailover_Settle_ban(t *testing.T) {
	t.Parallel()
	for _, f := range bothStores(t, Behavior{}) {
		p := storetest.NewPolicy(t, limiter.Settings{Name: "api", Algorithm: limiter.FixedWindow, Limit: 10, Window: storetest.LongWindow(0), Ban: []time.Duration{time.Minute}, Refunds: true})
		check := limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Refundable: true}
		source := assert.NoError(f.Decide(t.Context(), []limiter.Check{check}))(t)
		f.Settle(check, 10, source)
		checkLeft(t, f, p, 0)
		got := storetest.Decide(t, f, check)[0].Result
		assert.ErrorIf(t, !got.Banned, "%s: %+v", source, got)
	}
}

// TestFailover_Settle_concurrent has a thousand requests at once whose estimates are at least their
// costs. What all that pass cost together never exceeds the limit, and in the end just that is taken.
func TestFailover_Settle_concurrent(t *testing.T) {
	t.Parallel()
	const limit, requests, senders = 20_000, 1000, 100
	stores := failovers(t)
	for _, name := range []string{"redis", "memory"} {
		for _, algorithm := range limiter.Algorithms() {
			t.Run(name+"/"+algorithm, func(t *testing.T) {
				f := stores[name]
				p := storetest.NewPolicy(t, limiter.Settings{Name: "parallel-" + name + "-" + algorithm, Algorithm: algorithm, Limit: limit, Window: 90 * 24 * time.Hour, Refunds: true})
				var spent, passed atomic.Int64
				storetest.InParallel(senders, func(sender int) {
					random := rand.New(rand.NewPCG(uint64(sender), 2))
					for range requests / senders {
						estimate := 1 + random.Int64N(100)
						checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: estimate, Refundable: true}}
						source, err := f.Decide(t.Context(), checks)
						if err != nil {
							t.Error(err)
							return
						}
						if !limiter.Allowed(checks) {
							continue
						}
						cost := random.Int64N(estimate + 1)
						passed.Add(1)
						got := spent.Add(cost)
						assert.ErrorIf(t, got > limit, "%d units were spent of %d", got, limit)
						f.Settle(checks[0], cost, source)
					}
				})
				t.Logf("%d requests passed and cost %d units", passed.Load(), spent.Load())
				assert.ErrorIf(t, passed.Load() < limit/100, "%d requests passed", passed.Load())
				if algorithm == limiter.FixedWindow || algorithm == limiter.SlidingWindowCounter {
					checkLeft(t, f, p, limit-spent.Load())
				}
			})
		}
	}
}

// checkLeft waits until so many units of a quota are left, by the store that decided.
func checkLeft(t *testing.T, f *Store, p *limiter.Policy, want int64) {
	t.Helper()
	assert.Retry(t, fmt.Sprint(want, " units are left"), func() (again bool, seen any) {
		check := limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Peek: true}
		_, err := f.PeekIn(t.Context(), limiter.FailLocal, &check)
		return err != nil || check.Result.Remaining != want, fmt.Sprintf("%+v, %v", check.Result, err)
	})
}
