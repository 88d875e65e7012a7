package main

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/load"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

func names(sections []*section) []string {
	var names []string
	for _, s := range sections {
		for _, t := range s.trials {
			names = append(names, t.name)
		}
	}
	return names
}

func TestSelected_comparisons(t *testing.T) {
	tests := []struct {
		words string
		want  []string
	}{
		{"64/memory,denied/redis", []string{"64/bare", "64/memory", "denied/bare", "denied/redis"}},
		{"slow/redis", []string{"p99/evalsha-peak", "slow/redis"}},
		{"p99/redis-own", []string{"p99/evalsha-peak", "p99/redis-peak", "p99/evalsha", "p99/redis-own"}},
		{"nothing", nil},
	}
	for _, test := range tests {
		t.Run(test.words, func(t *testing.T) {
			got := names(selected(plan(), test.words))
			redistest.ErrorIf(t, !slices.Equal(got, test.want), "got %v, want %v", got, test.want)
		})
	}
	all := names(selected(plan(), ""))
	redistest.ErrorIf(t, !slices.Equal(all, names(plan())), "no words select %v", all)
}

func TestSection_inTurn(t *testing.T) {
	sections := selected(plan(), "denied,lone")
	want := [][]string{
		{"denied/bare", "denied/error", "denied/redis", "lone/evalsha", "lone/redis"},
		{"denied/redis", "denied/error", "denied/bare"},
	}
	for round, want := range want {
		var got []string
		for _, s := range sections {
			for _, t := range s.inTurn(round) {
				got = append(got, t.name)
			}
		}
		redistest.ErrorIf(t, !slices.Equal(got, want), "round %d: got %v, want %v", round, got, want)
	}
}

// TestServers_answer starts each server and sends it a request: the status and the headers of its limit
// must be those of its rows.
func TestServers_answer(t *testing.T) {
	if testing.Short() {
		t.Skip("builds Caddy with all contenders")
	}
	f := newFleet(t.Context(), t.TempDir())
	t.Cleanup(f.stop)
	for _, s := range plan() {
		for _, trial := range s.trials {
			_, err := f.target(trial.server)
			redistest.ErrorIf(t, err != nil && !errors.Is(err, errLeftOut), "%s: %v", trial.name, err)
		}
	}
}

// TestOthersP99 has a hundred requests: five with a slow reply, and two that waited as long.
func TestOthersP99(t *testing.T) {
	latencies := slices.Repeat(load.Latencies{time.Millisecond}, 93)
	latencies = append(latencies, slices.Repeat(load.Latencies{50 * time.Millisecond}, 7)...)
	if got := othersP99(latencies, 0.05); got != 50*time.Millisecond {
		t.Errorf("got %v, want 50ms", got)
	}
	if got := othersP99(latencies, 0.07); got != time.Millisecond {
		t.Errorf("got %v, want 1ms", got)
	}
}
