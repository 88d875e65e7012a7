package failover

import (
	"context"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/decision"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
)

// vector is one step of a test vector: at a time in microseconds a request of a weight, and its
// answer. Times below zero are not compared.
type vector struct {
	at, weight      int64
	allowed         bool
	remaining       int64
	retry, resets   int64 // microseconds
	ignoreRemaining bool
	ignoreReset     bool
}

// step compares everything.
func step(at, weight int64, allowed bool, remaining, retry, resets int64) vector {
	return vector{at: at, weight: weight, allowed: allowed, remaining: remaining, retry: retry, resets: resets}
}

// denied compares the wait alone.
func denied(at, weight, retry int64) vector {
	return vector{at: at, weight: weight, retry: retry, ignoreRemaining: true, ignoreReset: true}
}

// passed compares the remaining units alone.
func passed(at, weight, remaining int64) vector {
	return vector{at: at, weight: weight, allowed: true, remaining: remaining, ignoreReset: true}
}

// passes compares nothing but that the request is allowed.
func passes(at, weight int64) vector {
	return vector{at: at, weight: weight, allowed: true, ignoreRemaining: true, ignoreReset: true}
}

// vectors are published sequences of other limiters and hand-made edges. Never is -1.
var vectors = []struct {
	name     string
	settings limiter.Settings
	steps    []vector
}{
	{"bucket as throttled and redis-cell count", limiter.Settings{Algorithm: limiter.TokenBucket, Limit: 1, Window: time.Second, Burst: 5}, []vector{
		step(0, 6, false, 5, -1, 0),
		step(0, 1, true, 4, 0, storetest.Sec), step(0, 1, true, 3, 0, 2*storetest.Sec), step(0, 1, true, 2, 0, 3*storetest.Sec),
		step(0, 1, true, 1, 0, 4*storetest.Sec), step(0, 1, true, 0, 0, 5*storetest.Sec), step(0, 1, false, 0, storetest.Sec, 5*storetest.Sec),
		step(3*storetest.Sec, 1, true, 2, 0, 3*storetest.Sec), step(3100*1000, 1, true, 1, 0, 3900*1000),
		step(4*storetest.Sec, 1, true, 1, 0, 4*storetest.Sec), step(8*storetest.Sec, 1, true, 4, 0, storetest.Sec), step(9500*1000, 1, true, 4, 0, storetest.Sec),
		step(9500*1000, 0, true, 4, 0, storetest.Sec), step(9500*1000, 2, true, 2, 0, 3*storetest.Sec),
		step(9500*1000, 5, false, 2, 3*storetest.Sec, 3*storetest.Sec), step(15*storetest.Sec, 6, false, 5, -1, 0),
	}},
	{"bucket as redis_rate counts", limiter.Settings{Algorithm: limiter.GCRA, Limit: 10, Window: time.Second}, []vector{
		step(0, 1, true, 9, 0, storetest.Sec/10), step(0, 2, true, 7, 0, 3*storetest.Sec/10), step(0, 7, true, 0, 0, storetest.Sec),
		{at: 0, weight: 1000, retry: -1, ignoreRemaining: true, ignoreReset: true},
	}},
	{"log of two a minute", limiter.Settings{Algorithm: limiter.SlidingWindowLog, Limit: 2, Window: time.Minute}, []vector{
		passed(0, 1, 1), passed(10*storetest.Sec, 1, 0), step(20*storetest.Sec, 1, false, 0, 40*storetest.Sec, 50*storetest.Sec),
		denied(60*storetest.Sec-1, 1, storetest.Us), passes(60*storetest.Sec, 1),
	}},
	{"log with weights", limiter.Settings{Algorithm: limiter.SlidingWindowLog, Limit: 10, Window: 2 * time.Second}, []vector{
		{at: 0, weight: 11, retry: -1, ignoreRemaining: true, ignoreReset: true},
		passed(0, 5, 5), passed(1800*1000, 1, 4), passed(1800*1000, 1, 3), passed(1800*1000, 1, 2),
		passed(1800*1000, 1, 1), step(1800*1000, 2, false, 1, 200*1000, 2*storetest.Sec), passed(1800*1000, 1, 0),
		passed(2*storetest.Sec, 5, 0), denied(2*storetest.Sec, 2, 1800*1000),
	}},
	{"fixed window", limiter.Settings{Algorithm: limiter.FixedWindow, Limit: 10, Window: 2 * time.Second}, []vector{
		passes(0, 10), step(storetest.Sec, 1, false, 0, storetest.Sec, storetest.Sec), denied(2*storetest.Sec-1, 1, storetest.Us), passed(2*storetest.Sec, 1, 9),
	}},
	{"counter of one in ten seconds", limiter.Settings{Algorithm: limiter.SlidingWindowCounter, Limit: 1, Window: 10 * time.Second}, []vector{
		passes(0, 1), denied(storetest.Us, 1, 10*storetest.Sec), denied(10*storetest.Sec, 1, storetest.Us), passes(10*storetest.Sec+1, 1),
	}},
	{"counter of ten in ten seconds", limiter.Settings{Algorithm: limiter.SlidingWindowCounter, Limit: 10, Window: 10 * time.Second}, []vector{
		step(0, 10, true, 0, 0, 20*storetest.Sec), denied(5*storetest.Sec, 1, 5*storetest.Sec+1), denied(10*storetest.Sec, 1, storetest.Us), passed(10*storetest.Sec+1, 1, 0),
	}},
	{"counter as Cloudflare explains it", limiter.Settings{Algorithm: limiter.SlidingWindowCounter, Limit: 50, Window: time.Minute}, []vector{
		passes(0, 42), passes(60*storetest.Sec, 8), passes(75*storetest.Sec, 10), passed(75*storetest.Sec, 1, 0), denied(75*storetest.Sec, 1, 714_286),
	}},
	{"bucket with a fraction of a tick", limiter.Settings{Algorithm: limiter.LeakyBucket, Limit: 3, Window: time.Second}, []vector{
		passes(0, 3), denied(0, 1, 333_334), denied(333_333, 1, storetest.Us), passes(333_334, 1),
	}},
}

func TestStores_follow_the_published_vectors(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for _, v := range vectors {
		for _, s := range []*testStore{memoryStore(), redisStore(t, server)} {
			t.Run(v.name+"/"+s.name, func(t *testing.T) {
				settings := v.settings
				settings.Name = "vector"
				playVector(t, s, storetest.NewPolicy(t, settings), v.name, v.steps)
			})
		}
	}
}

func playVector(t *testing.T, s *testStore, p *limiter.Policy, key string, steps []vector) {
	t.Helper()
	for i, v := range steps {
		s.set(storetest.Epoch + v.at)
		checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey(key), Weight: v.weight, Peek: v.weight == 0}}
		if _, err := s.Decide(context.Background(), checks); err != nil {
			t.Fatal(err)
		}
		got := checks[0].Result
		want := limiter.Result{Remaining: v.remaining, RetryAfter: decision.Duration(v.retry), ResetAfter: decision.Duration(v.resets)}
		if v.ignoreRemaining {
			want.Remaining = got.Remaining
		}
		if v.ignoreReset {
			want.ResetAfter = got.ResetAfter
		}
		if got != want || got.Passes() != v.allowed {
			t.Errorf("step %d, %d units at %d µs: got %+v, want %+v", i, v.weight, v.at, got, want)
		}
	}
}

// TestStores_queue has each name of the bucket hold requests, as nginx does without nodelay: ten a second, a queue
// of twenty behind the first.
func TestStores_queue(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for _, algorithm := range []string{limiter.TokenBucket, limiter.LeakyBucket, limiter.GCRA} {
		for _, s := range []*testStore{memoryStore(), redisStore(t, server)} {
			settings := limiter.Settings{Name: "queue", Algorithm: algorithm, Limit: 10, Window: time.Second, Burst: 21, MaxDelay: new(2 * time.Second)}
			take := func(p *limiter.Policy) limiter.Result {
				return storetest.Decide(t, s, limiter.Check{Policy: p, Key: limiter.EncodeKey(algorithm)})[0].Result
			}
			s.set(storetest.Epoch)
			for i := range int64(21) {
				if got, want := take(storetest.NewPolicy(t, settings)), (limiter.Result{Remaining: 20 - i, Delay: decision.Duration(i * storetest.Sec / 10), ResetAfter: decision.Duration((i + 1) * storetest.Sec / 10)}); got != want {
					t.Errorf("%s, %s, request %d: got %+v, want %+v", algorithm, s.name, i, got, want)
				}
			}
			if got := take(storetest.NewPolicy(t, settings)); got.RetryAfter != time.Second/10 || got.Delay != 0 {
				t.Errorf("%s, %s: a full queue says %+v", algorithm, s.name, got)
			}
			settings.Name, settings.MaxDelay = "strict", new(time.Duration(0))
			strict := storetest.NewPolicy(t, settings)
			if first, second := take(strict), take(strict); !first.Passes() || second.RetryAfter != time.Second/10 {
				t.Errorf("%s, %s: strict spacing says %+v and %+v", algorithm, s.name, first, second)
			}
		}
	}
}
