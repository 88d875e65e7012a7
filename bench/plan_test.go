package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/report"
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
		{"headers/memory,denied/redis", []string{"headers/bare", "headers/memory", "denied/bare", "denied/redis"}},
		{"plain/bare", []string{"plain/bare"}},
		{"several/2/evalsha", []string{"several/bare", "several/2/evalsha"}},
		{"several/4", []string{"several/bare", "several/1", "several/4", "several/4/evalsha", "several/4/pipelined", "several/4/envoy"}},
		{"floor/ping", []string{"floor/bare", "floor/ping"}},
		{"nothing", nil},
	}
	for _, test := range tests {
		t.Run(test.words, func(t *testing.T) {
			if got := names(selected(plan(), test.words)); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
	unasked := slices.DeleteFunc(names(plan()), func(name string) bool { return strings.HasPrefix(name, "floor") })
	if all := names(selected(plan(), "")); !slices.Equal(all, unasked) {
		t.Errorf("no words select %v", all)
	}
}

// TestDue_measures_until_intervals_are_narrow has a row whose differences are steady, one whose differences
// are not, and their base.
func TestDue_measures_until_intervals_are_narrow(t *testing.T) {
	sections := selected(plan(), "plain")
	bare, steady, noisy := sections[0].trials[0], sections[0].trials[1], sections[0].trials[2]
	const least = 4
	for round := range 2 * least {
		base := float64(30 + 5*(round%2))
		for t, cpu := range map[*trial]float64{bare: base, steady: base + 2, noisy: base + float64(round%4)} {
			t.Samples = append(t.Samples, report.Sample{Round: round, CPU: cpu})
		}
		want := []*trial{bare, noisy}
		if round < least-1 {
			want = []*trial{bare, steady, noisy}
		}
		got := due(sections, rand.New(rand.NewPCG(1, 0)), least)
		missing := func(t *trial) bool { return !slices.Contains(got, t) }
		if len(got) != len(want) || slices.ContainsFunc(want, missing) {
			t.Errorf("after %d rounds: got %d trials, want %d", round+1, len(got), len(want))
		}
	}
	noisy.Samples = steady.Samples
	if got := due(sections, rand.New(rand.NewPCG(1, 0)), least); len(got) != 0 {
		t.Errorf("%d trials are due when all intervals are narrow", len(got))
	}
}

func TestDue_order_is_that_of_the_seed(t *testing.T) {
	order := func(seed uint64) []string {
		var names []string
		for _, t := range due(plan(), rand.New(rand.NewPCG(seed, 0)), 1) {
			names = append(names, t.name)
		}
		return names
	}
	if first := order(1); !slices.Equal(first, order(1)) || slices.Equal(first, order(2)) || len(first) != len(names(plan())) {
		t.Errorf("seed 1: %v, and %v, seed 2: %v", first, order(1), order(2))
	}
}

// TestServers_answer starts each server and sends it a request: the status and the headers of its limit
// must be those of its rows, and a request counts in as many keys of Redis as it has policies.
func TestServers_answer(t *testing.T) {
	if testing.Short() {
		t.Skip("builds Caddy with all contenders")
	}
	f := newFleet(t.Context(), t.TempDir())
	t.Cleanup(f.stop)
	for _, s := range plan() {
		for _, trial := range s.trials {
			target, err := f.target(trial.server)
			if errors.Is(err, errLeftOut) {
				t.Logf("%s is %v", trial.name, err)
				continue
			}
			if err == nil && trial.server.policies > 0 {
				err = countsInEach(target)
			}
			if err != nil {
				t.Errorf("%s: %v", trial.name, err)
			}
		}
	}
}

// countsInEach has a server decide a request of a client that Redis does not know, and returns an error if a policy does
// not count it.
func countsInEach(target *target) error {
	client := goredis.NewClient(&goredis.Options{Addr: target.redis.Addr})
	defer client.Close() //nolint:errcheck // it was only asked
	ctx := context.Background()
	if err := client.FlushDB(ctx).Err(); err != nil {
		return err
	}
	if err := target.answers(ctx); err != nil {
		return err
	}
	keys, err := client.Keys(ctx, "*check*").Result()
	if err == nil && len(keys) != target.server.policies {
		err = fmt.Errorf("%d policies have counted in %q", target.server.policies, keys)
	}
	return err
}
