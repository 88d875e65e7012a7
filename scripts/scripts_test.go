package scripts

import (
	"strings"
	"testing"
)

// TestBuildTakes_closures counts what each run of a script of takes has to make.
func TestBuildTakes_closures(t *testing.T) {
	for kernel, most := range map[string]int{"fixed_window": 1, "sliding_window_counter": 1, "bucket": 1} {
		text, err := BuildTakes("", kernel)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(text, "function"); n > most {
			t.Errorf("%s: %d functions, want %d:\n%s", kernel, n, most, text)
		}
	}
	text, err := BuildTakes("", "sliding_window_log")
	if err != nil {
		t.Fatal(err)
	}
	for _, kernel := range []string{"charge", "refund", "kernels"} {
		if strings.Contains(text, kernel) {
			t.Errorf("a script of takes has %q", kernel)
		}
	}
}
