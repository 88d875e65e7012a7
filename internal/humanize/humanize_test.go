package humanize

import (
	"testing"
	"time"
)

func TestTime_has_the_two_largest_units(t *testing.T) {
	for seconds, want := range map[float64]string{
		0: "0 ms", 0.000_25: "0.25 ms", 0.009_999: "10 ms", 0.35: "350 ms", 1: "1 s", 12.54: "12.5 s", 59.4: "59.4 s", 59.97: "1 min",
		60: "1 min", 250: "4 min 10 s", 3599.7: "1 h", 3600: "1 h", 3 * 3600: "3 h", 86_400: "24 h", 90_000: "25 h",
		7 * 86_400: "7 d", 100 * 3600: "4 d 4 h",
	} {
		if got := Time(seconds); got != want {
			t.Errorf("%v seconds are %q; want %q", seconds, got, want)
		}
	}
	if got := Duration(1500 * time.Millisecond); got != "1.5 s" {
		t.Errorf("got %q", got)
	}
}
