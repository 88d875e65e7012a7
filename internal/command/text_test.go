package command

import (
	"strings"
	"testing"
)

func TestWaitTime(t *testing.T) {
	for seconds, want := range map[float64]string{0: "now", -1: "never", 2: "2 s"} {
		if got := waitTime(seconds); got != want {
			t.Errorf("%v seconds are %q; want %q", seconds, got, want)
		}
		if got := strings.TrimPrefix(inTime(seconds), "in "); got != want {
			t.Errorf("%v seconds are %q; want %q", seconds, got, want)
		}
	}
}

func TestPairs(t *testing.T) {
	value := map[string]any{"units": float64(1_500_000), "begins": "2026-11-21T15:21:00Z"}
	if got, want := pairs(value), `begins=2026-11-21T15:21:00Z units=1500000`; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
}
