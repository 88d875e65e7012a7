package main

import (
	"errors"
	"fmt"
	"slices"
)

// Instants and durations are microseconds of Redis's clock, as in the scripts.
const second = 1_000_000

// policy is a limit. The burst is the capacity of a bucket.
type policy struct {
	algorithm            string
	limit, window, burst int64
}

// The algorithms. A token bucket decides as the other buckets do.
const (
	fixedWindow   = "fixed_window"
	slidingWindow = "sliding_window_counter"
	slidingLog    = "sliding_window_log"
	tokenBucket   = "token_bucket"
)

var algorithms = []string{fixedWindow, slidingWindow, slidingLog, tokenBucket}

// check returns an error for a policy that the simulation cannot run.
func (p policy) check() error {
	switch {
	case !slices.Contains(algorithms, p.algorithm):
		return fmt.Errorf("-algorithm %s: use one of %v", p.algorithm, algorithms)
	case p.limit < 1 || p.window < 1000 || p.burst < 1:
		return errors.New("-limit and -burst must be 1 at least, -window a millisecond")
	case max(p.limit, p.burst) > (1<<52)/p.window:
		return errors.New("-limit or -burst times -window is too large: at most 2^52 unit microseconds")
	}
	return nil
}

// request asks for one unit of a quota, or for none, and for a lease of more.
type request struct {
	units    int64 // 1, or 0 by a node that only asks ahead
	want     int64 // units of the lease; 0: none
	duration int64 // of the lease
}

// answer is Redis's decision.
type answer struct {
	wait     int64 // 0: the units were taken
	leased   int64
	duration int64 // of the lease
	receipt  int64 // of the lease, to give units of it back
}

// quota is the state of one key.
type quota interface {
	take(now int64, r request) answer
	giveBack(now, units, receipt int64)
}

func (p policy) newQuota() quota {
	switch p.algorithm {
	case fixedWindow:
		return &windows{policy: p}
	case slidingWindow:
		return &windows{policy: p, slides: true}
	case slidingLog:
		return &entryLog{policy: p}
	default:
		return &bucket{policy: p}
	}
}

// longestLease is the most that any configuration of a window leases for.
func (p policy) longestLease() int64 { return min(p.window/100, second) }

// leasable returns how many of the remaining units a lease may take.
func leasable(remaining, want int64) int64 {
	const fraction, least = 4, 4
	if most := remaining / fraction; most >= least {
		return min(want, most)
	}
	return 0
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

// windows is the state of both algorithms with windows.
type windows struct {
	policy
	slides                 bool
	index, units, previous int64
}

func (s *windows) roll(now int64) {
	index := now / s.window
	if index > s.index {
		s.previous = 0
		if index == s.index+1 {
			s.previous = s.units
		}
		s.index, s.units = index, 0
	}
}

func (s *windows) take(now int64, r request) answer {
	s.roll(now)
	left := (s.index+1)*s.window - now
	overlap := int64(0)
	if s.slides {
		overlap = s.previous * left / s.window
	}
	if r.units > 0 && s.units+overlap+r.units > s.limit {
		return answer{wait: s.wait(left, r.units)}
	}
	s.units += r.units
	a := answer{receipt: s.index, duration: min(r.duration, left)}
	if want := r.want; want > 0 {
		if r.duration > left {
			want = want * left / r.duration
		}
		a.leased = leasable(s.limit-s.units-overlap, want)
		s.units += a.leased
	}
	return a
}

// wait returns the time until the units fit, with so much left of the window.
func (s *windows) wait(left, units int64) int64 {
	switch free := s.limit - units + 1; {
	case !s.slides:
		return left
	case s.units < free: // the part of the previous window falls
		return left - ceilDiv((free-s.units)*s.window, s.previous) + 1
	default: // this window becomes the previous one
		return left + s.window - ceilDiv(free*s.window, s.units) + 1
	}
}

func (s *windows) giveBack(now, units, receipt int64) {
	s.roll(now)
	switch {
	case receipt == s.index:
		s.units = max(0, s.units-units)
	case s.slides && receipt == s.index-1:
		s.previous = max(0, s.previous-units)
	}
}
