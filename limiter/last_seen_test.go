package limiter

import (
	"testing"
	"time"
)

// TestLastSeen_denials has an answer take some milliseconds from a Redis whose clock is some
// milliseconds behind. This process then denies at least as long as Redis, and no whole window
// longer.
func TestLastSeen_denials(t *testing.T) {
	const window = 15 * time.Minute
	for _, algorithm := range Algorithms() {
		for _, into := range []time.Duration{0, time.Millisecond, window / 3, window - time.Millisecond} {
			now := epoch + into.Microseconds()
			remote, local := NewMemory(func() int64 { return now }), NewMemory(func() int64 { return now })
			p := mustPolicy(t, Settings{Algorithm: algorithm, Limit: 5, Window: window})
			for range 5 {
				decide(t, remote, Check{Policy: p, Key: "k", Weight: 1})
			}
			denied := decide(t, remote, Check{Policy: p, Key: "k", Weight: 1})[0]
			now += 25_000 // transit time, and the clocks' difference
			local.remember(&denied)
			got := decide(t, local, Check{Policy: p, Key: "k", Weight: 1})[0].Result
			if wait := denied.Result.RetryAfter; got.RetryAfter < wait-time.Second || got.RetryAfter > wait+window/10 {
				t.Errorf("%s, %v into the window: denied for %v, on Redis for %v", algorithm, into, got.RetryAfter, wait)
			}
		}
	}
}

// TestLastSeen_clock_steps_back has the node's clock set back by three hours: the newest answer
// counts, and not the fuller one of before.
func TestLastSeen_clock_steps_back(t *testing.T) {
	now := epoch
	m := NewMemory(func() int64 { return now })
	p := mustPolicy(t, Settings{Algorithm: "fixed_window", Limit: 5, Window: 24 * time.Hour})
	m.remember(&Check{Policy: p, Key: "k", Result: Result{Remaining: 0, ResetAfter: time.Hour}})
	now -= 3 * time.Hour.Microseconds()
	m.remember(&Check{Policy: p, Key: "k", Result: Result{Remaining: 4, ResetAfter: time.Hour}})
	if left := decide(t, m, Check{Policy: p, Key: "k"})[0].Result.Remaining; left != 4 {
		t.Errorf("%d units remain, want 4", left)
	}
}
