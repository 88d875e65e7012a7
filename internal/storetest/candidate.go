package storetest

import (
	"context"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Candidate is a store as the suite sees it: one that decides, settles, repays and leases by a clock that the test sets.
// SetClock may set it back. A key's state outlives its end by days of that clock.
type Candidate struct {
	limiter.Store
	Name     string
	Source   limiter.Source // of what it decides
	SetClock func(micros int64)

	// Settle corrects what a check took to what its request cost. Await waits until that and the bans' counts are done.
	Settle func(c limiter.Check, cost int64)
	Await  func()

	// Repay adds what an outage owes to a quota, and returns the units that were settled.
	Repay func(t testing.TB, c *limiter.Check, d kernel.Debt) (units int64)

	// Lease gives back the rest of a lease by its receipt, decides the check and takes units ahead, in one step.
	Lease func(t testing.TB, c *limiter.Check, wish kernel.Wish, rest int64, r kernel.Receipt) (limiter.Result, kernel.Lease)

	// Copy returns a store in the same state of the policy's key k, for [Promises] alone.
	Copy func(p *limiter.Policy) *Candidate
}

// Open returns the stores that a test plays the same to: new ones, without any state.
type Open func(t testing.TB) []*Candidate

// Request decides a request on the store and nowhere else.
func (s *Candidate) Request(t testing.TB, checks ...limiter.Check) []limiter.Check {
	t.Helper()
	if source, err := s.Decide(context.Background(), checks); err != nil || source != s.Source {
		t.Fatalf("decided by %s: %v", source, err)
	}
	s.Await() // units that count for bans
	return checks
}

// Play decides one check of the key k, a peek if it weighs nothing.
func (s *Candidate) Play(t testing.TB, now int64, p *limiter.Policy, weight int64) limiter.Result {
	t.Helper()
	return s.PlayLeaving(t, now, p, weight, 0)
}

// PlayLeaving decides one check that leaves units to others.
func (s *Candidate) PlayLeaving(t testing.TB, now int64, p *limiter.Policy, weight, reserve int64) limiter.Result {
	t.Helper()
	s.SetClock(now)
	return Decide(t, s, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: weight, Reserve: reserve, Peek: weight == 0})[0].Result
}

// Remaining peeks at a quota.
func (s *Candidate) Remaining(t testing.TB, p *limiter.Policy, key string) int64 {
	t.Helper()
	return s.Request(t, limiter.Check{Policy: p, Key: limiter.EncodeKey(key), Peek: true})[0].Result.Remaining
}

// Refund refunds what checks took before it returns, Keep has it stay.
func (s *Candidate) Refund(checks []limiter.Check) {
	s.settleAll(checks, func(*limiter.Check) int64 { return 0 })
}

// Keep has what checks took stay before it returns.
func (s *Candidate) Keep(checks []limiter.Check) { s.settleAll(checks, limiter.Units) }

// SettleCost settles a check to a cost before it returns.
func (s *Candidate) SettleCost(check limiter.Check, cost int64) {
	s.Settle(check, cost)
	s.Await()
}

// Charge charges the weights of checks that have taken nothing before it returns.
func (s *Candidate) Charge(checks []limiter.Check) {
	for _, c := range checks {
		units := c.Weight
		c.Peek = true
		s.Settle(c, units)
	}
	s.Await()
}

func (s *Candidate) settleAll(checks []limiter.Check, cost func(c *limiter.Check) int64) {
	for _, c := range checks {
		s.Settle(c, cost(&c))
	}
	s.Await()
}
