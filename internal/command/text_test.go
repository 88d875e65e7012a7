package command

import (
	"strings"
	"testing"
)

func TestWaitTime_knows_now_and_never(t *testing.T) {
	for seconds, want := range map[float64]string{0: "now", -1: "never", 2: "2 s"} {
		if got := waitTime(seconds); got != want {
			t.Errorf("%v seconds are %q; want %q", seconds, got, want)
		}
		if got := strings.TrimPrefix(inTime(seconds), "in "); got != want {
			t.Errorf("%v seconds are %q; want %q", seconds, got, want)
		}
	}
}

func TestPrintable_leaves_nothing_that_a_terminal_obeys(t *testing.T) {
	for text, want := range map[string]string{
		"203.0.113.7":       "203.0.113.7",
		"größe 漢":           "größe 漢",
		"\x1b[31m":          `\u001b[31m`,
		"a\u009b1m":         `a\u009b1m`,
		"\u202eabc":         `\u202eabc`,
		"line\nbreak\t":     `line\u000abreak\u0009`,
		"tag \U000e0041":    `tag \udb40\udc41`,
		"a\\x1b is written": `a\x1b is written`,
	} {
		if got := printable(text); got != want {
			t.Errorf("%q is shown as %q; want %q", text, got, want)
		}
	}
}

func TestPairs_are_in_order_and_plain(t *testing.T) {
	value := map[string]any{"units": float64(1_500_000), "begins": "2026-11-21T15:21:00Z"}
	if got, want := pairs(value), `begins=2026-11-21T15:21:00Z units=1500000`; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
}
