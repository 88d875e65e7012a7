package storetest

import (
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

func logExpires(t *testing.T, open Open) {
	const entries = 40
	p := NewPolicy(t, limiter.Settings{Name: "edges", Algorithm: limiter.SlidingWindowLog, Limit: entries, Window: time.Minute})
	for _, s := range open(t) {
		for i := range int64(entries) {
			s.Play(t, Epoch+i, p, 1)
		}
		for dead := range int64(entries + 1) {
			now := Epoch + time.Minute.Microseconds() + dead - 1
			if got := s.Play(t, now, p, 0).Remaining; got != dead {
				t.Errorf("%s: with %d entries dead, %d units remain", s.Name, dead, got)
			}
			want := time.Duration(0)
			if dead < entries {
				want = time.Microsecond
			}
			if got := s.Play(t, now, p, dead+1); dead < entries && got.RetryAfter != want {
				t.Errorf("%s: with %d entries dead, one unit more waits %v, want %v", s.Name, dead, got.RetryAfter, want)
			}
		}
	}
}

// logWraps takes so much that the running totals in Redis pass
// 2^40 several times.
func logWraps(t *testing.T, open Open) {
	p := NewPolicy(t, limiter.Settings{Name: "wrap", Algorithm: limiter.SlidingWindowLog, Limit: kernel.MaxLogLimit, Window: time.Millisecond})
	stores := open(t)
	total := int64(0)
	for i := range int64(40) {
		now, weight := Epoch+i*400, kernel.MaxLogLimit/4+i
		for _, weight := range []int64{kernel.MaxLogLimit, weight} { // the first is denied by what is live
			want := stores[0].Play(t, now, p, weight)
			if got := stores[1].Play(t, now, p, weight); got != want {
				t.Fatalf("take %d: Redis says %+v, the process %+v", i, got, want)
			}
			if want.Passes() {
				total += weight
			}
		}
	}
	if total < 4<<40 {
		t.Errorf("only %d units were taken", total)
	}
}

// logRefundsTail refunds entries around the bound, in both stores: one with a
// thousand entries after it is removed, one with more stays.
func logRefundsTail(t *testing.T, open Open) {
	p := NewPolicy(t, limiter.Settings{Name: "tail", Algorithm: limiter.SlidingWindowLog, Limit: 100_000, Window: time.Hour})
	for _, s := range open(t) {
		t.Run(s.Name, func(t *testing.T) {
			var reserved [][]limiter.Check
			for i := range 1100 {
				if i < 60 || i == 99 { // from 60 on 40 of one instant, of two weights
					s.SetClock(Epoch + int64(i))
				}
				if i == 100 {
					s.SetClock(Epoch + 1_000)
				}
				checks := s.Request(t, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: int64(1 + i%2), Refundable: true})
				reserved = append(reserved, checks)
			}
			remaining := s.Play(t, Epoch+1_000, p, 0).Remaining
			for _, refund := range []struct {
				at, units int64
				why       string
			}{
				{10, 0, "1089 entries follow"}, {98, 0, "1001 follow, and one of another weight"},
				{99, 2, "1000 follow"}, {99, 0, "it was refunded"}, {98, 1, "1000 follow"},
				{1099, 2, "the last"}, {500, 1, "of an instant that has many"},
			} {
				s.Refund(reserved[refund.at])
				remaining += refund.units
				if got := s.Play(t, Epoch+1_000, p, 0).Remaining; got != remaining {
					t.Fatalf("entry %d (%s): %d remain, want %d", refund.at, refund.why, got, remaining)
				}
			}
		})
	}
}

// logChargesWithoutRoom charges a log that can count no further unit. Once the
// units before are over, the entry without any leaves the quota as good as new.
func logChargesWithoutRoom(t *testing.T, open Open) {
	p := NewPolicy(t, limiter.Settings{Algorithm: limiter.SlidingWindowLog, Limit: 5, Window: 10 * time.Second})
	for _, s := range open(t) {
		charge := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: limiter.MaxCharge}}
		s.SetClock(Epoch)
		s.Charge(charge)
		s.SetClock(Epoch + 6*Sec)
		s.Charge(charge)
		if got, want := s.Play(t, Epoch+11*Sec, p, 0), (limiter.Result{Remaining: 5}); got != want {
			t.Errorf("%s: %+v, want %+v", s.Name, got, want)
		}
	}
}
