package limiter

import "testing"

// TestFailover_scaleDown has a quarter of a limit of 8 enforced in an outage.
func TestFailover_scaleDown(t *testing.T) {
	for _, algorithm := range Algorithms() {
		p := dayPolicy(t, "part", algorithm, 8)
		for weight, want := range map[int64]bool{1: true, 2: true, 8: true, 9: false} {
			f := NewFailover(new(Redis), NewMemory(SystemClock), FailoverOptions{LocalFraction: 0.25})
			checks := []Check{{Policy: p, Key: "k", Weight: weight}}
			source, err := f.Fallback(t.Context(), checks, FailLocal, ErrAlreadyTimedOut)
			if err != nil || source != SourceFallback || checks[0].Result.Passes() != want {
				t.Errorf("%s: weight %d: %s, %+v, %v; want it to pass: %v", algorithm, weight, source, checks[0].Result, err, want)
			}
			if !want && checks[0].Result.RetryAfter != Never {
				t.Errorf("%s: weight %d may come back after %v, and never can", algorithm, weight, checks[0].Result.RetryAfter)
			}
		}
	}
}
