package storetest

import (
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
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
		step(0, 1, true, 4, 0, Sec), step(0, 1, true, 3, 0, 2*Sec), step(0, 1, true, 2, 0, 3*Sec),
		step(0, 1, true, 1, 0, 4*Sec), step(0, 1, true, 0, 0, 5*Sec), step(0, 1, false, 0, Sec, 5*Sec),
		step(3*Sec, 1, true, 2, 0, 3*Sec), step(3100*1000, 1, true, 1, 0, 3900*1000),
		step(4*Sec, 1, true, 1, 0, 4*Sec), step(8*Sec, 1, true, 4, 0, Sec), step(9500*1000, 1, true, 4, 0, Sec),
		step(9500*1000, 0, true, 4, 0, Sec), step(9500*1000, 2, true, 2, 0, 3*Sec),
		step(9500*1000, 5, false, 2, 3*Sec, 3*Sec), step(15*Sec, 6, false, 5, -1, 0),
	}},
	{"bucket as redis_rate counts", limiter.Settings{Algorithm: limiter.GCRA, Limit: 10, Window: time.Second}, []vector{
		step(0, 1, true, 9, 0, Sec/10), step(0, 2, true, 7, 0, 3*Sec/10), step(0, 7, true, 0, 0, Sec),
		{at: 0, weight: 1000, retry: -1, ignoreRemaining: true, ignoreReset: true},
	}},
	{"log of two a minute", limiter.Settings{Algorithm: limiter.SlidingWindowLog, Limit: 2, Window: time.Minute}, []vector{
		passed(0, 1, 1), passed(10*Sec, 1, 0), step(20*Sec, 1, false, 0, 40*Sec, 50*Sec),
		denied(60*Sec-1, 1, Us), passes(60*Sec, 1),
	}},
	{"log with weights", limiter.Settings{Algorithm: limiter.SlidingWindowLog, Limit: 10, Window: 2 * time.Second}, []vector{
		{at: 0, weight: 11, retry: -1, ignoreRemaining: true, ignoreReset: true},
		passed(0, 5, 5), passed(1800*1000, 1, 4), passed(1800*1000, 1, 3), passed(1800*1000, 1, 2),
		passed(1800*1000, 1, 1), step(1800*1000, 2, false, 1, 200*1000, 2*Sec), passed(1800*1000, 1, 0),
		passed(2*Sec, 5, 0), denied(2*Sec, 2, 1800*1000),
	}},
	{"fixed window", limiter.Settings{Algorithm: limiter.FixedWindow, Limit: 10, Window: 2 * time.Second}, []vector{
		passes(0, 10), step(Sec, 1, false, 0, Sec, Sec), denied(2*Sec-1, 1, Us), passed(2*Sec, 1, 9),
	}},
	{"counter of one in ten seconds", limiter.Settings{Algorithm: limiter.SlidingWindowCounter, Limit: 1, Window: 10 * time.Second}, []vector{
		passes(0, 1), denied(Us, 1, 10*Sec), denied(10*Sec, 1, Us), passes(10*Sec+1, 1),
	}},
	{"counter of ten in ten seconds", limiter.Settings{Algorithm: limiter.SlidingWindowCounter, Limit: 10, Window: 10 * time.Second}, []vector{
		step(0, 10, true, 0, 0, 20*Sec), denied(5*Sec, 1, 5*Sec+1), denied(10*Sec, 1, Us), passed(10*Sec+1, 1, 0),
	}},
	{"counter as Cloudflare explains it", limiter.Settings{Algorithm: limiter.SlidingWindowCounter, Limit: 50, Window: time.Minute}, []vector{
		passes(0, 42), passes(60*Sec, 8), passes(75*Sec, 10), passed(75*Sec, 1, 0), denied(75*Sec, 1, 714_286),
	}},
	{"bucket with a fraction of a tick", limiter.Settings{Algorithm: limiter.LeakyBucket, Limit: 3, Window: time.Second}, []vector{
		passes(0, 3), denied(0, 1, 333_334), denied(333_333, 1, Us), passes(333_334, 1),
	}},
}

func publishedVectorsHold(t *testing.T, open Open) {
	for _, v := range vectors {
		for _, s := range open(t) {
			t.Run(v.name+"/"+s.Name, func(t *testing.T) {
				settings := v.settings
				settings.Name = "vector"
				playVector(t, s, NewPolicy(t, settings), v.name, v.steps)
			})
		}
	}
}

func playVector(t *testing.T, s *Candidate, p *limiter.Policy, key string, steps []vector) {
	t.Helper()
	for i, v := range steps {
		s.SetClock(Epoch + v.at)
		got := Decide(t, s, limiter.Check{Policy: p, Key: limiter.EncodeKey(key), Weight: v.weight, Peek: v.weight == 0})[0].Result
		want := limiter.Result{Remaining: v.remaining, RetryAfter: limiter.Duration(v.retry), ResetAfter: limiter.Duration(v.resets)}
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

// queuesHold has each name of the bucket hold requests, as nginx does without nodelay: ten a second, a queue
// of twenty behind the first.
func queuesHold(t *testing.T, open Open) {
	for _, algorithm := range []string{limiter.TokenBucket, limiter.LeakyBucket, limiter.GCRA} {
		for _, s := range open(t) {
			settings := limiter.Settings{Name: "queue", Algorithm: algorithm, Limit: 10, Window: time.Second, Burst: 21, MaxDelay: new(2 * time.Second)}
			take := func(p *limiter.Policy) limiter.Result {
				return Decide(t, s, limiter.Check{Policy: p, Key: limiter.EncodeKey(algorithm)})[0].Result
			}
			s.SetClock(Epoch)
			for i := range int64(21) {
				if got, want := take(NewPolicy(t, settings)), (limiter.Result{Remaining: 20 - i, Delay: limiter.Duration(i * Sec / 10), ResetAfter: limiter.Duration((i + 1) * Sec / 10)}); got != want {
					t.Errorf("%s, %s, request %d: got %+v, want %+v", algorithm, s.Name, i, got, want)
				}
			}
			if got := take(NewPolicy(t, settings)); got.RetryAfter != time.Second/10 || got.Delay != 0 {
				t.Errorf("%s, %s: a full queue says %+v", algorithm, s.Name, got)
			}
			settings.Name, settings.MaxDelay = "strict", new(time.Duration(0))
			strict := NewPolicy(t, settings)
			if first, second := take(strict), take(strict); !first.Passes() || second.RetryAfter != time.Second/10 {
				t.Errorf("%s, %s: strict spacing says %+v and %+v", algorithm, s.Name, first, second)
			}
		}
	}
}
