package scripts

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/scripts/internal/takes"
)

// TestTakes_generated compares the scripts of takes with what they are made of.
func TestTakes_generated(t *testing.T) {
	wanted, err := takes.Generate(files)
	redistest.Must(t, err)
	for name, want := range wanted {
		got, err := files.ReadFile(name)
		redistest.ErrorIf(t, err != nil || string(got) != want, "scripts/%s is not current, run: go generate ./scripts (%v)", name, err)
	}
	if names, err := fs.Glob(files, "*_takes.lua"); err != nil || len(names) != len(wanted) {
		t.Errorf("%d scripts of takes: %v, %v; want %d", len(names), names, err, len(wanted))
	}
}

// TestBuildTakes_closures counts what each run of a script of takes has to make.
func TestBuildTakes_closures(t *testing.T) {
	for kernel, most := range map[string]int{"fixed_window": 1, "sliding_window_counter": 1, "bucket": 1} {
		text, err := BuildTakes("", kernel)
		redistest.Must(t, err)
		n := strings.Count(text, "function")
		redistest.ErrorIf(t, n > most, "%s: %d functions, want %d:\n%s", kernel, n, most, text)
	}
	text, err := BuildTakes("", "sliding_window_log")
	redistest.Must(t, err)
	for _, kernel := range []string{"charge", "refund", "kernels"} {
		redistest.ErrorIf(t, strings.Contains(text, kernel), "a script of takes has %q", kernel)
	}
}
