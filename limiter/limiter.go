// Package limiter decides whether a client may make a request now, and if not, when.
//
// A request is a handful of checks, one per policy that it meets. A [Store] decides them all or
// nothing: [Memory] in this process, [Redis] for any number of processes together, [Failover] the
// second with the first behind it for outages. All of them give the same answers to the last
// microsecond. The formulas are those of the algorithm's file; the Lua twins are in scripts/.
package limiter

import (
	"context"
	"errors"
	"time"
)

// Never is the RetryAfter of a request that cannot pass however long it waits, because its weight
// is above the capacity.
const Never time.Duration = -1

// Check is one policy's part in a request: whose share, and how much of it.
type Check struct {
	// Policy is the rule to decide by.
	Policy *Policy

	// Key names the client's share within the policy. Any bytes; the empty key is a share too. Stores
	// keep the string, so it had better be no small part of a large one.
	Key string

	// Weight is the units that the request takes; 0 only looks and always passes.
	Weight int64

	// Result is filled in by the store. It is undefined after an error.
	Result Result

	// Reserve asks for a charge that [Failover.Refund] can undo. The policy must be one that gives
	// back, see [Policy.AllowRefunds]. Default: the charge stays.
	Reserve bool

	receipt receipt // of a reserve that passed
}

// Unknown is what remains of a share that nobody was asked about.
const Unknown = -1

// Result is what a store answers to one check. A denial is a result, not an error.
type Result struct {
	// Remaining is the units left after this decision, from 0 to the policy's capacity; [Unknown] where
	// another check's denial was known, so that nobody was asked about this one.
	Remaining int64

	// RetryAfter is how long until the same request would pass if nobody else came; 0 when this
	// check passes, [Never] when it never will.
	RetryAfter time.Duration

	// ResetAfter is how long until the share is certainly as good as new if nobody else comes; 0
	// when it is.
	ResetAfter time.Duration

	// Delay is how long a queue ([Settings].MaxDelay) wants an admitted request held; 0 otherwise.
	Delay time.Duration
}

// Passes tells whether the check let the request through. The request as a whole is allowed when
// all its checks pass.
func (r Result) Passes() bool { return r.RetryAfter == 0 }

// reserves tells whether a charge must be one that can be undone.
func reserves(checks []Check) bool {
	for i := range checks {
		if checks[i].Reserve {
			return true
		}
	}
	return false
}

// Allowed tells whether all checks passed, which is when all of them were charged.
func Allowed(checks []Check) bool {
	for i := range checks {
		if !checks[i].Result.Passes() {
			return false
		}
	}
	return true
}

// Binding is the index of the check whose policy binds: among denials one that can never pass,
// then the longest RetryAfter; otherwise the smallest share of its capacity left. Ties go to the
// first. It is -1 where there are no checks.
func Binding(checks []Check) int {
	binding := -1
	for i := range checks {
		if binding < 0 || binds(&checks[i], &checks[binding]) {
			binding = i
		}
	}
	return binding
}

// binds tells whether a binds more tightly than b.
func binds(a, b *Check) bool {
	x, y := a.Result.RetryAfter, b.Result.RetryAfter
	if x != 0 || y != 0 {
		if x == Never || y == Never {
			return x == Never && y != Never
		}
		return x > y
	}
	return smallerFraction(a.Result.Remaining, a.Policy.Capacity(), b.Result.Remaining, b.Policy.Capacity())
}

// Source names the part of the limiter that decided.
type Source string

// The sources of a decision.
const (
	SourceRedis     Source = "redis"
	SourceMemory    Source = "memory"
	SourceFallback  Source = "fallback"
	SourceDenyCache Source = "deny_cache"
)

// Store decides requests.
type Store interface {
	// Decide decides the checks together: all of them are charged if all pass, otherwise none.
	// It fills in their results. No two checks may name the same policy and key. An error, always
	// an [ErrUndecided] or the context's, means that the store could not decide; the request is
	// then charged at most once. Decide does not keep the slice.
	Decide(ctx context.Context, checks []Check) (Source, error)
}

// ErrUndecided is wrapped by every error of a store that could not decide.
var ErrUndecided = errors.New("rate limit store could not decide")
