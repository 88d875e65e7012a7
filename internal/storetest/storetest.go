// Package storetest is the conformance suite: a new store is right when it passes. It also has what the tests of
// several rooms share: policies, traces, and a request in one line. It imports internal/limiter, kernel and
// lease, and no store, so that each store's own tests can import it.
package storetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// NewPolicy returns the policy of settings, called p if they have no name.
func NewPolicy(t testing.TB, s limiter.Settings) *limiter.Policy {
	t.Helper()
	if s.Name == "" {
		s.Name = "p"
	}
	p, err := limiter.NewPolicy(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// LongWindow returns a window of a day or more that clocks so far apart are in together now, and for an hour from
// now. An outage begins anew, and a debt has decayed, where only one of them is in the next one.
func LongWindow(apart time.Duration) time.Duration {
	now, margin := time.Duration(time.Now().UnixNano()), apart+time.Hour
	for window := 24 * time.Hour; ; window += time.Hour {
		if passed := now % window; passed > margin && passed < window-margin {
			return window
		}
	}
}

// DayPolicy returns a policy so slow that nothing drains during a test, in a [LongWindow].
func DayPolicy(t testing.TB, name, algorithm string, limit int64) *limiter.Policy {
	t.Helper()
	return NewPolicy(t, limiter.Settings{Name: name, Algorithm: algorithm, Limit: limit, Window: LongWindow(0)})
}

// RefundingPolicy is a [DayPolicy] that refunds.
func RefundingPolicy(t testing.TB, name, algorithm string, limit int64) *limiter.Policy {
	t.Helper()
	s := DayPolicy(t, name, algorithm, limit).Settings
	s.Refunds = true
	return NewPolicy(t, s)
}

// RefundingPolicies returns a policy of each algorithm and one of a calendar, whose windows are far from their ends.
func RefundingPolicies(t testing.TB, limit int64) []*limiter.Policy {
	t.Helper()
	window := LongWindow(0)
	policies := []*limiter.Policy{NewPolicy(t, limiter.Settings{Name: "calendar", Algorithm: limiter.FixedWindow, Limit: limit, Calendar: "year", Location: time.UTC, Refunds: true})}
	for _, algorithm := range limiter.Algorithms() {
		policies = append(policies, NewPolicy(t, limiter.Settings{Name: algorithm, Algorithm: algorithm, Limit: limit, Window: window, Refunds: true}))
	}
	return policies
}

// HourBan returns a policy of two units in thirty days that bans for an hour after some denials.
func HourBan(t testing.TB, name string, after int) *limiter.Policy {
	t.Helper()
	return NewPolicy(t, limiter.Settings{Name: name, Algorithm: limiter.FixedWindow, Limit: 2, Window: 30 * 24 * time.Hour, Ban: []time.Duration{time.Hour}, BanAfter: after})
}

// ConcurrencyPolicy returns a policy of so many requests at once.
func ConcurrencyPolicy(t testing.TB, limit int64) *limiter.Policy {
	t.Helper()
	return NewPolicy(t, limiter.Settings{Name: "running", MaxConcurrent: limit})
}

// Leaving returns a check of the key "k" that leaves units to others.
func Leaving(p *limiter.Policy, weight, reserve int64) limiter.Check {
	return limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: weight, Reserve: reserve}
}

// Decide sends one request and returns its checks.
func Decide(t testing.TB, s limiter.Store, checks ...limiter.Check) []limiter.Check {
	t.Helper()
	if _, err := s.Decide(context.Background(), checks); err != nil {
		t.Fatal(err)
	}
	return checks
}

// Fill takes a unit of each of so many keys of a policy.
func Fill(t testing.TB, s limiter.Store, p *limiter.Policy, keys int) {
	t.Helper()
	for i := range keys {
		Decide(t, s, limiter.Check{Policy: p, Key: limiter.EncodeKey(fmt.Sprint("client-", i)), Weight: 1})
	}
}

// InParallel calls a function with each number below n at once, and waits for all.
func InParallel(n int, do func(i int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { do(i) })
	}
	group.Wait()
}

// Epoch is an instant that is a boundary of every window in the tests.
const Epoch = int64(1_790_000_000_000_000) / 86_400_000_000 * 86_400_000_000

// settler is a store without a Failover.
type settler interface {
	Settle(check limiter.Check, cost int64)
}

// RefundIn refunds all that checks took.
func RefundIn(s settler, checks []limiter.Check) {
	for _, c := range checks {
		s.Settle(c, 0)
	}
}

// ChargeIn charges the weights of checks that have taken nothing.
func ChargeIn(s settler, checks []limiter.Check) {
	for _, c := range checks {
		units := c.Weight
		c.Peek = true
		s.Settle(c, units)
	}
}

// Us and Sec are a microsecond and a second of the instants of tests.
const (
	Us  = int64(1)
	Sec = int64(1_000_000)
)
