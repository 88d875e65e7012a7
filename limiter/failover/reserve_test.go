package failover

import (
	"context"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/decision"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
)

// reserveStep is one request: at a time in microseconds, of a weight, leaving units to others, and its answer.
type reserveStep struct {
	at, weight, reserve int64
	wait, shown, delay  int64
	others              bool // denied for their sake alone
}

// takes is a request that passes.
func takes(at, weight, reserve, shown int64) reserveStep {
	return reserveStep{at: at, weight: weight, reserve: reserve, shown: shown}
}

// waits is a denial for the sake of others alone.
func waits(at, weight, reserve, wait, shown int64) reserveStep {
	return reserveStep{at: at, weight: weight, reserve: reserve, wait: wait, shown: shown, others: true}
}

// waitsAnyway is a denial also without what is left to others.
func waitsAnyway(at, weight, reserve, wait, shown int64) reserveStep {
	return reserveStep{at: at, weight: weight, reserve: reserve, wait: wait, shown: shown}
}

// holds is a request that a queue admits and holds.
func holds(at, weight, reserve, delay, shown int64) reserveStep {
	return reserveStep{at: at, weight: weight, reserve: reserve, delay: delay, shown: shown}
}

const tick = int64(1000) // of the queue below, whose window is one millisecond

var reserveVectors = []struct {
	name     string
	settings limiter.Settings
	steps    []reserveStep
}{
	{"fixed window", limiter.Settings{Algorithm: limiter.FixedWindow, Limit: 10, Window: 10 * time.Second}, []reserveStep{
		takes(0, 7, 2, 1), waits(0, 2, 2, 10*storetest.Sec, 1), takes(storetest.Sec, 1, 2, 0), takes(storetest.Sec, 1, 0, 1),
		{at: storetest.Sec, weight: 9, reserve: 2, wait: -1, shown: 0}, {at: 10 * storetest.Sec, weight: 9, reserve: 2, wait: -1, shown: 8, others: true},
	}},
	{"bucket", limiter.Settings{Algorithm: limiter.TokenBucket, Limit: 1, Window: time.Second, Burst: 5}, []reserveStep{
		takes(0, 3, 2, 0), waits(0, 1, 2, storetest.Sec, 0), takes(0, 2, 0, 0), waits(2_999_999, 1, 2, 1, 0), takes(3*storetest.Sec, 1, 2, 0),
	}},
	{"log", limiter.Settings{Algorithm: limiter.SlidingWindowLog, Limit: 4, Window: time.Minute}, []reserveStep{
		takes(0, 1, 1, 2), takes(10*storetest.Sec, 1, 1, 1), takes(20*storetest.Sec, 1, 1, 0), waits(30*storetest.Sec, 1, 1, 30*storetest.Sec, 0), takes(30*storetest.Sec, 1, 0, 0),
		waitsAnyway(59*storetest.Sec, 1, 1, 11*storetest.Sec, 0), waits(60*storetest.Sec, 1, 1, 10*storetest.Sec, 0), takes(70*storetest.Sec, 1, 1, 0),
	}},
	{"counter", limiter.Settings{Algorithm: limiter.SlidingWindowCounter, Limit: 10, Window: 10 * time.Second}, []reserveStep{
		takes(0, 8, 2, 0), waits(0, 1, 2, 10*storetest.Sec+1, 0), waits(10*storetest.Sec, 1, 2, 1, 0), takes(10*storetest.Sec+1, 1, 2, 0),
	}},
	{"queue", limiter.Settings{Algorithm: limiter.LeakyBucket, Limit: 1, Window: time.Millisecond, Burst: 100, MaxDelay: new(20 * time.Millisecond)}, []reserveStep{
		takes(0, 5, 15, 80), holds(0, 1, 15, 5*tick, 0), waits(0, 1, 15, tick, 0), holds(0, 14, 0, 6*tick, 80), holds(0, 1, 0, 20*tick, 0),
		waitsAnyway(0, 1, 0, tick, 0), waitsAnyway(0, 1, 15, 16*tick, 0), {at: 0, weight: 1, reserve: 21, wait: -1},
	}},
}

// TestStores_reserve plays vectors of requests that leave units to others.
func TestStores_reserve(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for _, v := range reserveVectors {
		for _, s := range []*testStore{memoryStore(), redisStore(t, server)} {
			t.Run(v.name+"/"+s.name, func(t *testing.T) {
				settings := v.settings
				settings.Name = "reserve"
				p := storetest.NewPolicy(t, settings)
				for i, step := range v.steps {
					s.set(storetest.Epoch + step.at)
					checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey(v.name), Weight: step.weight, Reserve: step.reserve}}
					if _, err := s.Decide(context.Background(), checks); err != nil {
						t.Fatal(err)
					}
					got := checks[0].Result
					want := limiter.Result{RetryAfter: decision.Duration(step.wait), Remaining: step.shown, Delay: decision.Duration(step.delay), ResetAfter: got.ResetAfter, ForOthers: step.others}
					if got != want {
						t.Errorf("step %d, %d units, %d left, at %d µs: got %+v, want %+v", i, step.weight, step.reserve, step.at, got, want)
					}
				}
			})
		}
	}
}

// TestPeek_reserve peeks by a check that was decided before: its unused units are those of now.
func TestPeek_reserve(t *testing.T) {
	t.Parallel()
	shared := openRedis(t, redistest.Shared(t), 10*time.Second)
	for name, f := range map[string]*Store{"redis": New(shared, memory.New(), Options{}), "memory": New(nil, memory.New(), Options{})} {
		p := storetest.NewPolicy(t, limiter.Settings{Name: "peeked", Algorithm: limiter.FixedWindow, Limit: 10, Window: 24 * time.Hour})
		checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Reserve: 4}}
		source, err := f.Decide(t.Context(), checks)
		if err != nil || checks[0].Unused() != 9 {
			t.Fatalf("%s: %d unused after one of 10, %v", name, checks[0].Unused(), err)
		}
		cost := checks[0]
		cost.Weight = 7
		chargeAll(f, []limiter.Check{cost}, source)
		for way, peek := range map[string]func(*limiter.Check) error{
			"Peek":   func(c *limiter.Check) error { _, err := f.Peek(t.Context(), c); return err },
			"PeekIn": func(c *limiter.Check) error { _, err := f.PeekIn(t.Context(), FailClosed, c); return err },
		} {
			looked := checks[0]
			looked.Peek = true
			if err := peek(&looked); err != nil || looked.Result.Remaining != 0 || looked.Unused() != 2 {
				t.Errorf("%s, %s: %d remain and %d are unused after 8 of 10, %v; want 0 and 2", name, way, looked.Result.Remaining, looked.Unused(), err)
			}
		}
	}
}
