package storetest

import (
	"math/rand/v2"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Promises holds a store that can be copied to what its answers promise. Others keep them by agreeing with it.
func Promises(t *testing.T, open func(t testing.TB) *Candidate) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, open func(t testing.TB) *Candidate)
	}{
		{"retry_after_exact", retryAfterIsExact}, {"remaining_is_what_would_pass", remainingPasses},
		{"reset_after_full_quota", resetAfterIsFull}, {"clock_runs_backwards", clockRunsBackwards},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, open)
		})
	}
}

func retryAfterIsExact(t *testing.T, open func(t testing.TB) *Candidate) {
	denials := 0
	for seed, play := range assert.Plays(t, 30, 300) {
		for _, p := range TracePolicies(t) {
			tr := &Trace{Random: rand.New(rand.NewPCG(seed, 2)), Policies: []*limiter.Policy{p}, Now: Epoch, Play: play}
			s := open(t)
			for range 60 {
				tr.StepFor(p)
				weight, reserve := 1+tr.Random.Int64N(p.Capacity()), tr.Reserve(p)
				tr.Note("take", p, weight, reserve)
				r := s.PlayLeaving(t, tr.Now, p, weight, reserve)
				tr.Learn([]limiter.Check{{Result: r}})
				if r.Passes() || r.RetryAfter == limiter.Never {
					continue
				}
				denials++
				// Counted in milliseconds, the clock's fraction is gone: the answer cannot be
				// earlier.
				at, tick := tr.Now+r.RetryAfter.Microseconds(), p.Params.Tick
				if early := s.Copy(p).PlayLeaving(t, at-tick, p, weight, reserve); at-tick > tr.Now && early.Passes() {
					t.Fatalf("%v: denied with retry after %v, but passes a tick earlier", p.Settings, r.RetryAfter)
				}
				if then := s.Copy(p).PlayLeaving(t, at, p, weight, reserve); !then.Passes() {
					t.Fatalf("%v: denied with retry after %v, and then again with %v", p.Settings, r.RetryAfter, then.RetryAfter)
				}
			}
		}
	}
	if assert.AllSeeds() && denials < 10_000 {
		t.Fatalf("only %d denials were checked", denials)
	}
}

func remainingPasses(t *testing.T, open func(t testing.TB) *Candidate) {
	for seed, play := range assert.Plays(t, 10, 100) {
		for _, p := range TracePolicies(t) {
			tr := &Trace{Random: rand.New(rand.NewPCG(seed, 3)), Policies: []*limiter.Policy{p}, Now: Epoch, Play: play}
			s := open(t)
			for range 60 {
				tr.StepFor(p)
				reserve, weight := tr.Reserve(p), 1+tr.Random.Int64N(p.Capacity())
				tr.Note("take", p, weight, reserve)
				r := s.PlayLeaving(t, tr.Now, p, weight, reserve)
				tr.Learn([]limiter.Check{{Result: r}})
				if r.RetryAfter == limiter.Never {
					continue // also of a client that is banned
				}
				if r.Remaining > 0 && !s.Copy(p).PlayLeaving(t, tr.Now, p, r.Remaining, reserve).Passes() {
					t.Fatalf("%v, %d left: %d units remain, but they do not pass", p.Settings, reserve, r.Remaining)
				}
				if s.Copy(p).PlayLeaving(t, tr.Now, p, r.Remaining+1, reserve).Passes() {
					t.Fatalf("%v, %d left: %d units remain, but one more passes", p.Settings, reserve, r.Remaining)
				}
			}
		}
	}
}

func resetAfterIsFull(t *testing.T, open func(t testing.TB) *Candidate) {
	for seed, play := range assert.Plays(t, 10, 100) {
		for _, p := range TracePolicies(t) {
			tr := &Trace{Random: rand.New(rand.NewPCG(seed, 4)), Policies: []*limiter.Policy{p}, Now: Epoch, Play: play}
			s := open(t)
			for range 40 {
				tr.StepFor(p)
				weight := 1 + tr.Random.Int64N(p.Capacity())
				tr.Note("take", p, weight, 0)
				r := s.Play(t, tr.Now, p, weight)
				tr.Learn([]limiter.Check{{Result: r}})
				at := tr.Now + r.ResetAfter.Microseconds()
				if then := s.Copy(p).Play(t, at, p, 0); then.Remaining != p.Capacity() || then.ResetAfter != 0 {
					t.Fatalf("%v: resets after %v, but then %+v", p.Settings, r.ResetAfter, then)
				}
			}
		}
	}
}

// clockRunsBackwards moves the clock back by less than a window (for a bucket: than it takes
// to drain) after a quota is used up. More counts as a broken clock.
func clockRunsBackwards(t *testing.T, open func(t testing.TB) *Candidate) {
	for _, p := range TracePolicies(t) {
		window := p.Settings.Window.Microseconds()
		if p.Algorithm.Bursts {
			window = kernel.CeilDiv(p.Params.Capacity*p.Params.Window, p.Params.Limit) * p.Params.Tick
		}
		for _, back := range []int64{p.Params.Tick, window / 3, window / 3 * 2} {
			s, most := open(t), 1+p.Params.Limit/100
			if p.Params.Periods != nil {
				most = p.Params.Limit // may be any number
			}
			for _, weight := range []int64{most, 1} { // a large quota by large steps first
				for s.Play(t, Epoch+window, p, weight).Passes() {
					continue
				}
			}
			if r := s.Play(t, Epoch+window-back, p, 1); r.Passes() {
				t.Errorf("%v: passes again after the clock went back by %d µs", p.Settings, back)
			}
		}
	}
}
