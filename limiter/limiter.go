// Package limiter decides whether a client may make a request now, and if not, when.
//
// A request has a few checks, one per policy that it meets. A [Store] charges all of them or none.
// [Memory] keeps its counts in this process, [Redis] in a Redis that any number of processes use,
// and [Failover] puts a Memory behind a Redis for outages. All of them give the same answers to the
// last microsecond. The formulas stand in the file of each algorithm; the Lua twins are in scripts/.
package limiter

import (
	"context"
	"errors"
	"time"
)

// Never is the RetryAfter of a request that cannot pass however long it waits, because its weight is
// above the capacity.
const Never time.Duration = -1

// Check is one policy's part in a request: the client's quota and how many units of it to take.
type Check struct {
	// Policy is the rule to decide by.
	Policy *Policy

	// Key names the client's quota within the policy.
	Key EncodedKey

	// Weight is the units that the request takes; 0 is 1, a negative one an error. One above the
	// policy's capacity never passes.
	Weight int64

	// Reserve is the units that must stay for others: the check passes only if a weight of so much more
	// would. It takes the weight alone. Default: 0. A negative one is an error; with more than
	// [Policy.MostReserve] the check never passes.
	Reserve int64

	// Peek makes the check take no unit, whatever its weight, and pass. Its Result is the quota as it
	// stands.
	Peek bool

	// Refundable requests a take that [Failover.Settle] can refund, all or a part. The policy must allow refunds,
	// see [Policy.AllowRefunds]. Default: what it takes stays.
	Refundable bool

	turn int32 // in which the store answered at asOf; it stands here to need no room of its own

	// Result is filled in by the store. It is undefined after an error.
	Result Result

	asOf     int64        // the store's time at its answer, in microseconds
	receipt  receipt      // of a reservation that passed, or a debt
	owed     *owedTake    // of a reservation that passed in an outage
	reserved *reservation // of a reservation, where its end is awaited; nil: it is not
	withheld int64        // units that remain and are not in the result
	change   int64        // of what it took, to settle it: units to charge, below 0 to refund
	stays    int64        // units that settling it counts for bans
	places   int64        // units that the request has until it ends, see Failover.EndRunning
	run      *run         // its part in what a shared store knows of; nil: none
}

// Unknown is the Remaining of a quota that was not looked up.
const Unknown = -1

// Result is a store's answer to one check. A denial is a result, not an error.
type Result struct {
	// Remaining is the units left after this decision, from 0 to the policy's capacity, without those
	// of the check's Reserve. It is [Unknown] where the deny cache refused the request because
	// of another check.
	Remaining int64

	// RetryAfter is how long until the same request would pass if no other request came; 0 when this
	// check passes, [Never] when it never will. See also [FailoverOptions].AwaitsRefunds.
	RetryAfter time.Duration

	// ResetAfter is how long until the whole quota is certainly free again if no other request
	// comes; 0 when it is. Callers of a [Store] may set [Never] in results that they make themselves.
	ResetAfter time.Duration

	// Delay is how long an admitted request has to be held for a queue ([Settings].MaxDelay); 0
	// otherwise.
	Delay time.Duration

	// ForOthers reports that the check is denied only for its [Check].Reserve.
	ForOthers bool

	// Banned reports that the client is banned ([Settings].Ban): BanLeft is for how long, and
	// BanBegins whether this request began it. Remaining is 0 then.
	Banned, BanBegins bool
	BanLeft           time.Duration
}

// Passes reports whether the check let the request through. The request as a whole is allowed when
// all its checks pass.
func (r Result) Passes() bool { return r.RetryAfter == 0 }

// refundable reports whether a check needs a take that can be refunded.
func refundable(checks []Check) bool {
	for i := range checks {
		if checks[i].Refundable {
			return true
		}
	}
	return false
}

// Allowed reports whether all checks passed. Only then were they charged.
func Allowed(checks []Check) bool {
	for i := range checks {
		if !checks[i].Result.Passes() {
			return false
		}
	}
	return true
}

// Binding returns the index of the check whose policy binds. Among denials that is one that can
// never pass, then the longest RetryAfter; otherwise the smallest fraction of its capacity left.
// Ties go to the first. It is -1 where there are no checks.
func Binding(checks []Check) int {
	binding := -1
	for i := range checks {
		if binding < 0 || binds(&checks[i], &checks[binding]) {
			binding = i
		}
	}
	return binding
}

// binds reports whether a binds more tightly than b.
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
	SourceLease     Source = "lease" // units of the shared store that were taken ahead
)

// Store decides requests.
type Store interface {
	// Decide decides the checks together: all of them are charged if all pass, otherwise none. It
	// fills in their results. An error means that there is no decision: it wraps [ErrUndecided] where
	// the store could not decide, so that the request was charged at most once; [ErrInvalidCheck] where
	// the checks are wrong; or it is the context's. Decide does not keep the slice.
	Decide(ctx context.Context, checks []Check) (Source, error)
}

// ErrUndecided is wrapped by every error of a store that could not decide.
var ErrUndecided = errors.New("rate limit store could not decide")
