package main

import (
	"slices"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/load"
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
			if got := names(selected(plan(64), test.words)); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
	if all := names(selected(plan(64), "")); !slices.Equal(all, names(plan(64))) {
		t.Errorf("no words select %v", all)
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
