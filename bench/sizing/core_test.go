package main

import (
	"math"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

func TestFit_finds_costs(t *testing.T) {
	var runs []scriptRun
	for _, n := range []float64{1, 4, 32, 122} {
		runs = append(runs, scriptRun{n, 30 + 5.5*n})
	}
	run, decision := fit(runs)
	redistest.ErrorIf(t, math.Abs(run-30) > 1e-6 || math.Abs(decision-5.5) > 1e-6, "got %v and %v, want 30 and 5.5", run, decision)
}

// TestMeasure sends a small load from several nodes to a real Redis.
func TestMeasure(t *testing.T) {
	r, err := startRedis(t.Context())
	redistest.Must(t, err)
	t.Cleanup(r.stop)
	s, err := r.measure(t.Context(), load{"sliding_window_counter", ipv4, 1000, 2, 1, 4, false, 2})
	redistest.Must(t, err)
	redistest.ErrorIf(t, s.cpu <= 0 || s.memory < 1000*100 || s.batches < 1 || s.batches > 2000, "got %+v", s)
}
