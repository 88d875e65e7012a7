package storetest

import (
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// leaseStep is one step of a vector with leases, at a time in microseconds.
type leaseStep struct {
	at          int64
	do          string // take, lease, back
	units       int64  // of the take, of the lease's request, to give back
	want, lasts int64  // of a lease
	of          int    // of a give back: the number of the lease, from 0

	remaining, leased, leasedFor int64 // what is answered
}

const milli = int64(1000)

// leaseVectors are hand-made: the examples of the scripts, and the rules one by one.
var leaseVectors = []struct {
	name     string
	settings limiter.Settings
	steps    []leaseStep
}{
	{"a quarter of what remains", limiter.Settings{Algorithm: limiter.FixedWindow, Limit: 100, Window: 10 * time.Second}, []leaseStep{
		{0, "take", 19, 0, 0, 0, 81, 0, 0},
		{9950 * milli, "lease", 1, 50, 100 * milli, 0, 80, 20, 50 * milli}, // ends with the window, wants half
		{9960 * milli, "back", 15, 0, 0, 0, 0, 0, 0},
		{9960 * milli, "take", 0, 0, 0, 0, 75, 0, 0},
		{10_000 * milli, "back", 5, 0, 0, 0, 0, 0, 0}, // of a window that has ended
		{10_000 * milli, "take", 0, 0, 0, 0, 100, 0, 0},
	}},
	{"below sixteen units", limiter.Settings{Algorithm: limiter.FixedWindow, Limit: 16, Window: 10 * time.Second}, []leaseStep{
		{0, "lease", 0, 50, 100 * milli, 0, 16, 4, 100 * milli},
		{0, "lease", 0, 50, 100 * milli, 0, 12, 0, 0},
	}},
	{"no longer than a hundredth of the window", limiter.Settings{Algorithm: limiter.FixedWindow, Limit: 100, Window: 10 * time.Second}, []leaseStep{
		{0, "lease", 0, 10, 10 * Sec, 0, 100, 10, 100 * milli},
	}},
	{"the window before", limiter.Settings{Algorithm: limiter.SlidingWindowCounter, Limit: 100, Window: 10 * time.Second}, []leaseStep{
		{0, "take", 40, 0, 0, 0, 60, 0, 0},
		{15 * Sec, "take", 9, 0, 0, 0, 71, 0, 0},
		{15 * Sec, "lease", 1, 50, 100 * milli, 0, 70, 17, 100 * milli},
		{21 * Sec, "back", 17, 0, 0, 0, 0, 0, 0}, // in the window after
		{21 * Sec, "take", 0, 0, 0, 0, 91, 0, 0},
		{29_950 * milli, "lease", 1, 50, 100 * milli, 0, 99, 24, 50 * milli}, // ends with the window, wants half
	}},
	{"the end of the lease", limiter.Settings{Algorithm: limiter.SlidingWindowLog, Limit: 100, Window: time.Minute}, []leaseStep{
		{0, "take", 19, 0, 0, 0, 81, 0, 0},
		{20 * Sec, "lease", 1, 50, 100 * milli, 0, 80, 20, 100 * milli},
		{20*Sec + 50*milli, "take", 10, 0, 0, 0, 50, 0, 0}, // keeps the order: counts from the same tick
		{60 * Sec, "take", 0, 0, 0, 0, 69, 0, 0},
		{60 * Sec, "back", 12, 0, 0, 0, 0, 0, 0},
		{60 * Sec, "take", 0, 0, 0, 0, 81, 0, 0},
		{80*Sec + 99*milli, "take", 0, 0, 0, 0, 81, 0, 0},
		{80*Sec + 100*milli, "take", 0, 0, 0, 0, 100, 0, 0},
	}},
	{"a take behind a lease does not set the clock ahead", limiter.Settings{Algorithm: limiter.SlidingWindowLog, Limit: 100, Window: time.Minute}, []leaseStep{
		{0, "take", 50, 0, 0, 0, 50, 0, 0},
		{59_900 * milli, "lease", 0, 10, 200 * milli, 0, 50, 10, 200 * milli},
		{59_950 * milli, "take", 1, 0, 0, 0, 39, 0, 0},
		{59_960 * milli, "take", 0, 0, 0, 0, 39, 0, 0},
		{60_000 * milli, "take", 0, 0, 0, 0, 89, 0, 0},
	}},
	{"nothing drains until its end", limiter.Settings{Algorithm: limiter.GCRA, Limit: 100, Window: time.Second}, []leaseStep{
		{0, "lease", 0, 50, 10 * milli, 0, 100, 24, 10 * milli},
		{0, "take", 0, 0, 0, 0, 75, 0, 0},
		{0, "back", 24, 0, 0, 0, 0, 0, 0}, // but for what drains in the longest lease
		{0, "take", 0, 0, 0, 0, 99, 0, 0},
	}},
	{"a bucket with takes since", limiter.Settings{Algorithm: limiter.TokenBucket, Limit: 100, Window: time.Second}, []leaseStep{
		{0, "lease", 0, 20, 10 * milli, 0, 100, 20, 10 * milli},
		{0, "take", 30, 0, 0, 0, 49, 0, 0},
		{100 * milli, "back", 20, 0, 0, 0, 0, 0, 0}, // 41 - 30 - 1
		{100 * milli, "take", 0, 0, 0, 0, 69, 0, 0},
		{1200 * milli, "take", 40, 0, 0, 0, 60, 0, 0},
		{1200 * milli, "back", 20, 0, 0, 0, 0, 0, 0}, // as old as a full bucket drains
		{1200 * milli, "take", 0, 0, 0, 0, 60, 0, 0},
	}},
	{"a bucket with another lease since", limiter.Settings{Algorithm: limiter.GCRA, Limit: 100, Window: time.Second}, []leaseStep{
		{0, "lease", 0, 20, 10 * milli, 0, 100, 20, 10 * milli},
		{0, "lease", 0, 30, 10 * milli, 0, 79, 19, 10 * milli},
		{100 * milli, "back", 20, 0, 0, 0, 0, 0, 0}, // 30 - 19 - 1
		{100 * milli, "take", 0, 0, 0, 0, 80, 0, 0},
	}},
	{"counted in milliseconds", limiter.Settings{Algorithm: limiter.FixedWindow, Limit: 100_000, Window: 400 * 24 * time.Hour}, []leaseStep{
		{300, "lease", 0, 10, 20, 0, 100_000, 10, 20*milli - 300},
	}},
}

func leaseVectorsHold(t *testing.T, open Open) {
	for _, v := range leaseVectors {
		for _, s := range open(t) {
			t.Run(v.name+"/"+s.Name, func(t *testing.T) {
				v.settings.Name = "lease"
				p := NewPolicy(t, v.settings)
				var held []kernel.Lease
				for i, step := range v.steps {
					s.SetClock(Epoch + step.at)
					check := limiter.Check{Policy: p, Key: limiter.EncodeKey(v.name), Weight: step.units, Peek: step.units == 0}
					got := kernel.Lease{}
					switch step.do {
					case "back":
						check.Peek = true
						s.Lease(t, &check, kernel.Wish{}, step.units, held[step.of].Receipt)
						continue
					case "lease":
						check.Result, got = s.Lease(t, &check, kernel.Wish{Units: step.want, Lasts: step.lasts}, 0, kernel.Receipt{})
						held = append(held, got)
					default:
						s.Request(t, check)
						check.Result.Remaining = s.Remaining(t, p, v.name)
					}
					if check.Result.Remaining != step.remaining || got.Units != step.leased || got.Lasts != step.leasedFor || !check.Result.Passes() {
						t.Errorf("step %d, %+v: %+v, leased %+v", i, step, check.Result, got)
					}
				}
			})
		}
	}
}

// leasesLeaveReserve leases a quarter of what is left without the units for others.
func leasesLeaveReserve(t *testing.T, open Open) {
	for _, s := range open(t) {
		s.SetClock(Epoch)
		for _, algorithm := range limiter.Algorithms() {
			p := NewPolicy(t, limiter.Settings{Name: "reserve", Algorithm: algorithm, Limit: 100, Window: 100 * time.Second})
			check := limiter.Check{Policy: p, Key: limiter.EncodeKey(algorithm), Peek: true, Reserve: 40}
			want := int64(15)
			if p.IsBucket() {
				want = 14 // a unit drains until the lease ends
			}
			if _, l := s.Lease(t, &check, kernel.Wish{Units: 50, Lasts: 1000 * milli}, 0, kernel.Receipt{}); l.Units != want {
				t.Errorf("%s, %s: %d units are leased; want %d, a quarter of those above the reserve", s.Name, algorithm, l.Units, want)
			}
		}
	}
}
