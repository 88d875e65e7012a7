package failover

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
)

// TestMemory_Settle_exact compares windows and logs with the same requests that took their cost at
// first: as soon as all costs are known the same units are left, for all time.
func TestMemory_Settle_exact(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{limiter.FixedWindow, limiter.SlidingWindowCounter, limiter.SlidingWindowLog} {
		for seed := range uint64(300) {
			random := rand.New(rand.NewPCG(seed, 1))
			now := storetest.Epoch
			estimated := New(nil, memory.NewOnClock(func() int64 { return now }), Options{})
			exact := memory.NewOnClock(func() int64 { return now })
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
				estimated.Settle(running[i].check, running[i].cost, limiter.SourceMemory)
				running[i] = running[len(running)-1]
				running = running[:len(running)-1]
			}
			for range 60 {
				now += random.Int64N(2 * storetest.Sec)
				if random.IntN(2) == 0 && len(running) > 0 {
					end(random.IntN(len(running)))
				} else {
					estimate := 1 + random.Int64N(p.Capacity())
					cost := random.Int64N(estimate + 1)
					taken := storetest.Decide(t, estimated, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: estimate, Refundable: true})
					if !limiter.Allowed(taken) {
						continue
					}
					running = append(running, open{taken[0], cost})
					if cost > 0 && !limiter.Allowed(storetest.Decide(t, exact, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: cost})) {
						t.Fatalf("%s, seed %d: a cost of %d is denied where its estimate of %d passed", algorithm, seed, cost, estimate)
					}
				}
				if a, b := left(estimated), left(exact); a > b {
					t.Fatalf("%s, seed %d: %d left, more than the %d of exact takes", algorithm, seed, a, b)
				}
			}
			for len(running) > 0 {
				end(0)
			}
			for range 25 {
				if a, b := left(estimated), left(exact); a != b {
					t.Fatalf("%s, seed %d, %d µs later: %d left, and %d of exact takes", algorithm, seed, now-storetest.Epoch, a, b)
				}
				now += storetest.Sec
			}
		}
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
				var running sync.WaitGroup
				var spent, passed atomic.Int64
				for sender := range senders {
					running.Go(func() {
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
							if got := spent.Add(cost); got > limit {
								t.Errorf("%d units were spent of %d", got, limit)
							}
							f.Settle(checks[0], cost, source)
						}
					})
				}
				running.Wait()
				t.Logf("%d requests passed and cost %d units", passed.Load(), spent.Load())
				if passed.Load() < limit/100 {
					t.Errorf("%d requests passed", passed.Load())
				}
				if algorithm == limiter.FixedWindow || algorithm == limiter.SlidingWindowCounter {
					checkLeft(t, f, p, limit-spent.Load())
				}
			})
		}
	}
}
