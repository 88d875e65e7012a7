package storetest

import (
	"math"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
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
		takes(0, 7, 2, 1), waits(0, 2, 2, 10*Sec, 1), takes(Sec, 1, 2, 0), takes(Sec, 1, 0, 1),
		{at: Sec, weight: 9, reserve: 2, wait: -1, shown: 0}, {at: 10 * Sec, weight: 9, reserve: 2, wait: -1, shown: 8, others: true},
	}},
	{"bucket", limiter.Settings{Algorithm: limiter.TokenBucket, Limit: 1, Window: time.Second, Burst: 5}, []reserveStep{
		takes(0, 3, 2, 0), waits(0, 1, 2, Sec, 0), takes(0, 2, 0, 0), waits(2_999_999, 1, 2, 1, 0), takes(3*Sec, 1, 2, 0),
	}},
	{"log", limiter.Settings{Algorithm: limiter.SlidingWindowLog, Limit: 4, Window: time.Minute}, []reserveStep{
		takes(0, 1, 1, 2), takes(10*Sec, 1, 1, 1), takes(20*Sec, 1, 1, 0), waits(30*Sec, 1, 1, 30*Sec, 0), takes(30*Sec, 1, 0, 0),
		waitsAnyway(59*Sec, 1, 1, 11*Sec, 0), waits(60*Sec, 1, 1, 10*Sec, 0), takes(70*Sec, 1, 1, 0),
	}},
	{"counter", limiter.Settings{Algorithm: limiter.SlidingWindowCounter, Limit: 10, Window: 10 * time.Second}, []reserveStep{
		takes(0, 8, 2, 0), waits(0, 1, 2, 10*Sec+1, 0), waits(10*Sec, 1, 2, 1, 0), takes(10*Sec+1, 1, 2, 0),
	}},
	{"queue", limiter.Settings{Algorithm: limiter.LeakyBucket, Limit: 1, Window: time.Millisecond, Burst: 100, MaxDelay: new(20 * time.Millisecond)}, []reserveStep{
		takes(0, 5, 15, 80), holds(0, 1, 15, 5*tick, 0), waits(0, 1, 15, tick, 0), holds(0, 14, 0, 6*tick, 80), holds(0, 1, 0, 20*tick, 0),
		waitsAnyway(0, 1, 0, tick, 0), waitsAnyway(0, 1, 15, 16*tick, 0), {at: 0, weight: 1, reserve: 21, wait: -1},
	}},
}

// reservesHold plays vectors of requests that leave units to others.
func reservesHold(t *testing.T, open Open) {
	for _, v := range reserveVectors {
		for _, s := range open(t) {
			t.Run(v.name+"/"+s.Name, func(t *testing.T) {
				settings := v.settings
				settings.Name = "reserve"
				p := NewPolicy(t, settings)
				for i, step := range v.steps {
					s.SetClock(Epoch + step.at)
					got := Decide(t, s, limiter.Check{Policy: p, Key: limiter.EncodeKey(v.name), Weight: step.weight, Reserve: step.reserve})[0].Result
					want := limiter.Result{RetryAfter: limiter.Duration(step.wait), Remaining: step.shown, Delay: limiter.Duration(step.delay), ResetAfter: got.ResetAfter, ForOthers: step.others}
					if got != want {
						t.Errorf("step %d, %d units, %d left, at %d µs: got %+v, want %+v", i, step.weight, step.reserve, step.at, got, want)
					}
				}
			})
		}
	}
}

// reservesBeginNoBan has lesser requests denied many times. That is no offense before they would be denied
// for themselves.
func reservesBeginNoBan(t *testing.T, open Open) {
	queue := new(20 * time.Second)
	for _, settings := range []limiter.Settings{
		{Algorithm: limiter.FixedWindow, Limit: 10}, {Algorithm: limiter.SlidingWindowCounter, Limit: 10}, {Algorithm: limiter.SlidingWindowLog, Limit: 10},
		{Algorithm: limiter.GCRA, Limit: 10}, {Algorithm: limiter.LeakyBucket, Limit: 60, Burst: 10, MaxDelay: queue},
	} {
		settings.Name, settings.Window, settings.Ban, settings.BanAfter = "ban-"+settings.Algorithm, time.Minute, []time.Duration{time.Hour}, 2
		p := NewPolicy(t, settings)
		for _, s := range open(t) {
			s.SetClock(Epoch)
			one := func(weight, reserve int64) limiter.Result { return s.PlayLeaving(t, Epoch, p, weight, reserve) }
			one(5, 5)
			for range 5 {
				if r := one(1, 5); r.Passes() || r.Banned || !r.ForOthers {
					t.Errorf("%s/%s: a lesser request: %+v", settings.Algorithm, s.Name, r)
				}
			}
			one(5, 0)
			for i := range 3 {
				if r := one(1, 5); r.Banned != (i > 0) || r.ForOthers {
					t.Errorf("%s/%s: lesser request %d of a full quota: %+v", settings.Algorithm, s.Name, i, r)
				}
			}
		}
	}
}

// enormousReservesNeverPass has weights that overflow with what they leave.
func enormousReservesNeverPass(t *testing.T, open Open) {
	for _, s := range open(t) {
		s.SetClock(Epoch)
		for _, algorithm := range limiter.Algorithms() {
			p := DayPolicy(t, "enormous-"+algorithm, algorithm, 10)
			for _, units := range [][2]int64{{math.MaxInt64, 1}, {math.MaxInt64 - 1, 2}, {math.MaxInt64, 9}, {math.MaxInt64, 0}, {11, 0}, {10, 1}} {
				c := Decide(t, s, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: units[0], Reserve: units[1]})[0]
				if c.Result.RetryAfter != limiter.Never || c.Unused() != 10 {
					t.Errorf("%s, %s, %d that leaves %d: %+v", algorithm, s.Name, units[0], units[1], c.Result)
				}
			}
		}
	}
}
