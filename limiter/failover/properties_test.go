package failover

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
)

// This file holds the store to what its answers promise, with the in-process store, which the
// conformance suite holds equal to Redis.

// play decides one check.
func play(t *testing.T, s *testStore, now int64, p *limiter.Policy, weight int64) limiter.Result {
	t.Helper()
	return playLeaving(t, s, now, p, weight, 0)
}

// playLeaving decides one check that leaves units to others.
func playLeaving(t *testing.T, s *testStore, now int64, p *limiter.Policy, weight, reserve int64) limiter.Result {
	t.Helper()
	s.set(now)
	checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: weight, Reserve: reserve, Peek: weight == 0}}
	if _, err := s.Decide(context.Background(), checks); err != nil {
		t.Fatal(err)
	}
	return checks[0].Result
}

// copyOf returns a store in the same state as the given one.
func copyOf(s *testStore, p *limiter.Policy) *testStore {
	twin := memoryStore()
	held, _ := s.local.Tables[p.Rule().ID].ShardOf("k").Kept("k")
	if held.Log != nil {
		held.Log = &kernel.UnitLog{Entries: slices.Clone(held.Log.Entries), Before: held.Log.Before}
	}
	shard := twin.local.TableOf(p).ShardOf("k")
	shard.Put("k", held)
	shard.Bans = maps.Clone(s.local.Tables[p.Rule().ID].ShardOf("k").Bans)
	return twin
}

func TestRetryAfter_exact(t *testing.T) {
	t.Parallel()
	denials := 0
	for seed := range redistest.Rounds[uint64](30, 300) {
		for _, p := range tracePolicies(t) {
			tr := &trace{random: rand.New(rand.NewPCG(seed, 2)), policies: []*limiter.Policy{p}, now: storetest.Epoch}
			s := memoryStore()
			for range 60 {
				tr.stepFor(p)
				weight, reserve := 1+tr.random.Int64N(p.Capacity()), tr.reserve(p)
				r := playLeaving(t, s, tr.now, p, weight, reserve)
				tr.learn([]limiter.Check{{Result: r}})
				if r.Passes() || r.RetryAfter == limiter.Never {
					continue
				}
				denials++
				// Counted in milliseconds, the clock's fraction is gone: the answer cannot be
				// earlier.
				at, tick := tr.now+r.RetryAfter.Microseconds(), p.Rule().Params.Tick
				if early := playLeaving(t, copyOf(s, p), at-tick, p, weight, reserve); at-tick > tr.now && early.Passes() {
					t.Fatalf("%v: denied with retry after %v, but passes a tick earlier", p.Settings(), r.RetryAfter)
				}
				if then := playLeaving(t, copyOf(s, p), at, p, weight, reserve); !then.Passes() {
					t.Fatalf("%v: denied with retry after %v, and then again with %v", p.Settings(), r.RetryAfter, then.RetryAfter)
				}
			}
		}
	}
	if denials < 10_000 {
		t.Fatalf("only %d denials were checked", denials)
	}
}

func TestRemaining_is_what_would_pass(t *testing.T) {
	t.Parallel()
	for seed := range redistest.Rounds[uint64](10, 100) {
		for _, p := range tracePolicies(t) {
			tr := &trace{random: rand.New(rand.NewPCG(seed, 3)), policies: []*limiter.Policy{p}, now: storetest.Epoch}
			s := memoryStore()
			for range 60 {
				tr.stepFor(p)
				reserve := tr.reserve(p)
				r := playLeaving(t, s, tr.now, p, 1+tr.random.Int64N(p.Capacity()), reserve)
				tr.learn([]limiter.Check{{Result: r}})
				if r.RetryAfter == limiter.Never {
					continue // also of a client that is banned
				}
				if r.Remaining > 0 && !playLeaving(t, copyOf(s, p), tr.now, p, r.Remaining, reserve).Passes() {
					t.Fatalf("%v, %d left: %d units remain, but they do not pass", p.Settings(), reserve, r.Remaining)
				}
				if playLeaving(t, copyOf(s, p), tr.now, p, r.Remaining+1, reserve).Passes() {
					t.Fatalf("%v, %d left: %d units remain, but one more passes", p.Settings(), reserve, r.Remaining)
				}
			}
		}
	}
}

func TestResetAfter_full_quota(t *testing.T) {
	t.Parallel()
	for seed := range redistest.Rounds[uint64](10, 100) {
		for _, p := range tracePolicies(t) {
			tr := &trace{random: rand.New(rand.NewPCG(seed, 4)), policies: []*limiter.Policy{p}, now: storetest.Epoch}
			s := memoryStore()
			for range 40 {
				tr.stepFor(p)
				r := play(t, s, tr.now, p, 1+tr.random.Int64N(p.Capacity()))
				tr.learn([]limiter.Check{{Result: r}})
				at := tr.now + r.ResetAfter.Microseconds()
				if then := play(t, copyOf(s, p), at, p, 0); then.Remaining != p.Capacity() || then.ResetAfter != 0 {
					t.Fatalf("%v: resets after %v, but then %+v", p.Settings(), r.ResetAfter, then)
				}
			}
		}
	}
}

// TestClock_runs_backwards moves the clock back by less than a window (for a bucket: than it takes
// to drain) after a quota is used up. More counts as a broken clock.
func TestClock_runs_backwards(t *testing.T) {
	t.Parallel()
	for _, p := range tracePolicies(t) {
		window := p.Settings().Window.Microseconds()
		if p.Rule().Algorithm.Bursts {
			window = kernel.CeilDiv(p.Rule().Params.Capacity*p.Rule().Params.Window, p.Rule().Params.Limit) * p.Rule().Params.Tick
		}
		for _, back := range []int64{p.Rule().Params.Tick, window / 3, window / 3 * 2} {
			s, most := memoryStore(), 1+p.Rule().Params.Limit/100
			if p.Rule().Params.Periods != nil {
				most = p.Rule().Params.Limit // may be any number
			}
			for _, weight := range []int64{most, 1} { // a large quota by large steps first
				for play(t, s, storetest.Epoch+window, p, weight).Passes() {
					continue
				}
			}
			if r := play(t, s, storetest.Epoch+window-back, p, 1); r.Passes() {
				t.Errorf("%v: passes again after the clock went back by %d µs", p.Settings(), back)
			}
		}
	}
}

func TestPolicy_changed_settings(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for _, algorithm := range limiter.Algorithms() {
		for _, s := range []*testStore{memoryStore(), redisStore(t, server)} {
			t.Run(algorithm+"/"+s.name, func(t *testing.T) {
				settings := limiter.Settings{Name: "live-" + algorithm, Algorithm: algorithm, Limit: 5, Window: time.Minute}
				for range 5 {
					play(t, s, storetest.Epoch, storetest.NewPolicy(t, settings), 1)
				}
				settings.Limit = 3
				if r := play(t, s, storetest.Epoch, storetest.NewPolicy(t, settings), 1); r.Passes() || r.Remaining != 0 {
					t.Errorf("lowered limit: %+v", r)
				}
				settings.Limit = 8
				if r := play(t, s, storetest.Epoch, storetest.NewPolicy(t, settings), 1); !r.Passes() {
					t.Errorf("raised limit: %+v", r)
				}
				settings.Window = time.Hour
				if r := play(t, s, storetest.Epoch, storetest.NewPolicy(t, settings), 1); !r.Passes() || r.Remaining != 7 {
					t.Errorf("changed window starts anew: %+v", r)
				}
			})
		}
	}
}

func TestStates_apart(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for _, s := range []*testStore{memoryStore(), redisStore(t, server)} {
		s.set(storetest.Epoch)
		p := storetest.NewPolicy(t, limiter.Settings{Name: "one", Algorithm: limiter.FixedWindow, Limit: 1, Window: time.Hour})
		other := storetest.NewPolicy(t, limiter.Settings{Name: "two", Algorithm: limiter.FixedWindow, Limit: 1, Window: time.Hour})
		checks := []limiter.Check{{Policy: other, Key: limiter.EncodeKey("a")}}
		for _, key := range []string{"a", "b", "", "%", "%25", "}", "}a", "{", "{}", "a\x00\n", strings.Repeat("a", 129), strings.Repeat("a", 130)} {
			checks = append(checks, limiter.Check{Policy: p, Key: limiter.EncodeKey(key)})
		}
		for i, c := range checks {
			for again := range 2 {
				checks := []limiter.Check{c}
				if _, err := s.Decide(context.Background(), checks); err != nil {
					t.Fatal(err)
				}
				if passes := checks[0].Result.Passes(); passes != (again == 0) {
					t.Errorf("%s, state %d, request %d: passes is %v", s.name, i, again, passes)
				}
			}
		}
	}
}

func TestDenied_charges_nothing(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for _, algorithm := range limiter.Algorithms() {
		for _, s := range []*testStore{memoryStore(), redisStore(t, server)} {
			s.set(storetest.Epoch)
			small := storetest.NewPolicy(t, limiter.Settings{Name: "small-" + algorithm, Algorithm: algorithm, Limit: 1, Window: time.Hour})
			large := storetest.NewPolicy(t, limiter.Settings{Name: "large-" + algorithm, Algorithm: algorithm, Limit: 10, Window: time.Hour})
			var last []limiter.Check
			for range 5 {
				last = []limiter.Check{{Policy: large, Key: limiter.EncodeKey("k"), Weight: 1}, {Policy: small, Key: limiter.EncodeKey("k"), Weight: 1}}
				if _, err := s.Decide(context.Background(), last); err != nil {
					t.Fatal(err)
				}
			}
			if got := last[0].Result; got.Remaining != 9 || !got.Passes() {
				t.Errorf("%s/%s: the large policy was charged by denied requests: %+v", s.name, algorithm, got)
			}
			if last[1].Result.Passes() || limiter.Binding(last) != 1 {
				t.Errorf("%s/%s: the small policy must bind: %+v", s.name, algorithm, last[1].Result)
			}
		}
	}
}

func TestBinding(t *testing.T) {
	t.Parallel()
	p := func(limit int64) *limiter.Policy {
		return storetest.NewPolicy(t, limiter.Settings{Name: fmt.Sprint("p", limit), Algorithm: limiter.GCRA, Limit: limit, Window: time.Minute})
	}
	check := func(limit, remaining int64, retry time.Duration) limiter.Check {
		return limiter.Check{Policy: p(limit), Result: limiter.Result{Remaining: remaining, RetryAfter: retry}}
	}
	tests := []struct {
		name   string
		checks []limiter.Check
		want   int
	}{
		{"nothing", nil, -1},
		{"the smaller part of its capacity", []limiter.Check{check(100, 50, 0), check(10, 4, 0)}, 1},
		{"the first of equals", []limiter.Check{check(100, 50, 0), check(10, 5, 0)}, 0},
		{"a denial before any allowance", []limiter.Check{check(10, 0, 0), check(10, 3, time.Second)}, 1},
		{"the longest wait", []limiter.Check{check(10, 0, time.Second), check(10, 0, time.Minute)}, 1},
		{"never before any wait", []limiter.Check{check(10, 0, time.Minute), check(10, 9, limiter.Never)}, 1},
		{"the first of nevers", []limiter.Check{check(10, 0, limiter.Never), check(10, 9, limiter.Never)}, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := limiter.Binding(test.checks); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}
