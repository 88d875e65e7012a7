package storetest

import (
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// lookStep is a look at an instant in microseconds, and its answer.
type lookStep struct {
	at, weight, reserve, credit int64
	wait, shown                 int64
	others                      bool
}

// lookVectors are looks at quotas of which so many units of 10 per 10 s were taken at the beginning.
var lookVectors = []struct {
	name  string
	taken int64
	steps []lookStep
}{
	{"one_left", 9, []lookStep{
		{weight: 1, shown: 1}, {weight: 1, shown: 1}, {weight: 2, wait: -2, shown: 1}, {weight: 2, credit: 1, shown: 1},
		{weight: 1, reserve: 1, wait: -2, shown: 0, others: true}, {weight: 1, reserve: 1, credit: 1, shown: 0}, {weight: 11, wait: -1, shown: 1},
		{weight: 11, credit: 11, wait: -1, shown: 1}, {weight: 9, reserve: 2, credit: 9, wait: -1, shown: 0, others: false},
	}},
	{"used_up", 10, []lookStep{{weight: 1, wait: -2}, {weight: 1, credit: 1}, {weight: 3, credit: 2, wait: -2}, {weight: 3, credit: 3}}},
	{"in_debt", 11, []lookStep{{weight: 1, wait: -2}, {weight: 1, credit: 1, wait: -2}, {weight: 2, credit: 2, wait: -2}}},
	{"unused", 0, []lookStep{{weight: 10, shown: 10}, {weight: 1, reserve: 9, shown: 1}, {weight: 1, shown: 10}}},
}

// looksTakeNothing plays vectors of looks by each algorithm. A wait of -2 is any.
func looksTakeNothing(t *testing.T, open Open) {
	for _, algorithm := range []string{limiter.FixedWindow, limiter.SlidingWindowCounter, limiter.SlidingWindowLog, limiter.TokenBucket} {
		p := NewPolicy(t, limiter.Settings{Name: "look-" + algorithm, Algorithm: algorithm, Limit: 10, Window: 10 * time.Second})
		for _, v := range lookVectors {
			for _, s := range open(t) {
				t.Run(algorithm+"/"+v.name+"/"+s.Name, func(t *testing.T) {
					s.SetClock(Epoch)
					key := limiter.EncodeKey(v.name)
					if v.taken > 0 {
						s.Charge([]limiter.Check{{Policy: p, Key: key, Weight: v.taken}})
					}
					for i, step := range v.steps {
						s.SetClock(Epoch + step.at)
						got := Decide(t, s, limiter.Check{Policy: p, Key: key, Weight: step.weight, Reserve: step.reserve, Look: true, Credit: step.credit})[0].Result
						want := limiter.Result{RetryAfter: limiter.Duration(step.wait), Remaining: step.shown, ResetAfter: got.ResetAfter, ForOthers: step.others}
						if step.wait == -2 && got.RetryAfter > 0 {
							want.RetryAfter = got.RetryAfter
						}
						if step.wait == -1 {
							want.ForOthers = got.ForOthers
						}
						if got != want {
							t.Errorf("step %d, a look at %d, %d left, credit %d: got %+v, want %+v", i, step.weight, step.reserve, step.credit, got, want)
						}
					}
					if left := s.Remaining(t, p, v.name); left != max(0, 10-v.taken) {
						t.Errorf("the looks left %d of %d", left, 10-v.taken)
					}
				})
			}
		}
	}
}

// looksBesideTakes has a look and a take decided together: each denies both, and the take alone is charged.
func looksBesideTakes(t *testing.T, open Open) {
	looked := NewPolicy(t, limiter.Settings{Name: "looked", Algorithm: limiter.SlidingWindowCounter, Limit: 2, Window: 10 * time.Second})
	taken := NewPolicy(t, limiter.Settings{Name: "taken", Algorithm: limiter.TokenBucket, Limit: 2, Window: 10 * time.Second})
	for _, s := range open(t) {
		t.Run(s.Name, func(t *testing.T) {
			s.SetClock(Epoch)
			key := limiter.EncodeKey("k")
			both := func() []limiter.Check {
				return Decide(t, s, limiter.Check{Policy: looked, Key: key, Weight: 1, Look: true}, limiter.Check{Policy: taken, Key: key, Weight: 1})
			}
			left := func(wantLooked, wantTaken int64) {
				t.Helper()
				if a, b := s.Remaining(t, looked, "k"), s.Remaining(t, taken, "k"); a != wantLooked || b != wantTaken {
					t.Errorf("%d and %d units are left, want %d and %d", a, b, wantLooked, wantTaken)
				}
			}
			if c := both(); !limiter.Allowed(c) || c[0].Result.Remaining != 2 || c[1].Result.Remaining != 1 {
				t.Errorf("got %+v and %+v", c[0].Result, c[1].Result)
			}
			left(2, 1)
			s.Charge([]limiter.Check{{Policy: looked, Key: key, Weight: 2}})
			if c := both(); c[0].Result.Passes() || !c[1].Result.Passes() || c[1].Result.Remaining != 1 {
				t.Errorf("the look denies: got %+v and %+v", c[0].Result, c[1].Result)
			}
			left(0, 1)
			s.SetClock(Epoch + 25*Sec)
			s.Charge([]limiter.Check{{Policy: taken, Key: key, Weight: 2}})
			if c := both(); !c[0].Result.Passes() || c[0].Result.Remaining != 2 || c[1].Result.Passes() {
				t.Errorf("the take denies: got %+v and %+v", c[0].Result, c[1].Result)
			}
			left(2, 0)
		})
	}
}

// looksAreBanned has denied looks begin a ban, which refuses looks and takes until its end.
func looksAreBanned(t *testing.T, open Open) {
	p := NewPolicy(t, limiter.Settings{
		Name: "trap", Algorithm: limiter.SlidingWindowCounter, Limit: 1, Window: 10 * time.Minute, Ban: []time.Duration{24 * time.Hour}, BanAfter: 1,
	})
	for _, s := range open(t) {
		t.Run(s.Name, func(t *testing.T) {
			s.SetClock(Epoch)
			one := func(look bool) limiter.Result {
				return s.Request(t, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1, Look: look})[0].Result
			}
			for range 3 {
				if r := one(true); !r.Passes() || r.Banned || r.Remaining != 1 {
					t.Fatalf("an honest look: got %+v", r)
				}
			}
			if r := one(false); !r.Passes() || r.Remaining != 0 {
				t.Fatalf("the trap: got %+v", r)
			}
			if r := one(true); !r.BanBegins || r.RetryAfter != 24*time.Hour {
				t.Fatalf("the look after it: got %+v", r)
			}
			s.SetClock(Epoch + 3600*Sec)
			for _, look := range []bool{true, false} {
				if r := one(look); !r.Banned || r.BanBegins || r.RetryAfter != 23*time.Hour {
					t.Errorf("look %t an hour later: got %+v", look, r)
				}
			}
			s.SetClock(Epoch + 24*3600*Sec)
			if r := one(true); !r.Passes() || r.Remaining != 1 {
				t.Errorf("a look after the ban: got %+v", r)
			}
		})
	}
}
