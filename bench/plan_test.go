package main

import (
	"errors"
	"slices"
	"testing"
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
		{"allowed/memory,denied/redis", []string{"allowed/bare", "allowed/memory", "denied/bare", "denied/redis"}},
		{"hot/bare", []string{"hot/bare"}},
		{"nothing", nil},
	}
	for _, test := range tests {
		t.Run(test.words, func(t *testing.T) {
			if got := names(selected(plan(), test.words)); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
	if all := names(selected(plan(), "")); !slices.Equal(all, names(plan())) {
		t.Errorf("no words select %v", all)
	}
}

func TestSection_inTurn(t *testing.T) {
	sections := selected(plan(), "denied,hot")
	want := [][]string{
		{"hot/bare", "hot/lease", "denied/bare", "denied/error", "denied/redis"},
		{"hot/lease", "hot/bare", "denied/redis", "denied/error", "denied/bare"},
	}
	for round, want := range want {
		var got []string
		for _, s := range sections {
			for _, t := range s.inTurn(round) {
				got = append(got, t.name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("round %d: got %v, want %v", round, got, want)
		}
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
			if _, err := f.target(trial.server); err != nil && !errors.Is(err, errLeftOut) {
				t.Errorf("%s: %v", trial.name, err)
			}
		}
	}
}
