package limiter

import (
	"math/bits"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
)

// Never is the RetryAfter of a request that cannot pass however long it waits, because its weight is
// above the capacity.
const Never time.Duration = kernel.Never

// Unknown is the Remaining of a quota that was not looked up.
const Unknown = -1

// Result is a store's answer to one check. A denial is a result, not an error.
type Result struct {
	// Remaining is the units left after this decision, from 0 to the policy's capacity, without those
	// of the check's Reserve. It is [Unknown] if the deny cache refused the request because
	// of another check.
	Remaining int64

	// RetryAfter is how long until the same request would pass if no other request came; 0 when this
	// check passes, [Never] when it never will. See also failover.Behavior.AwaitsRefunds.
	RetryAfter time.Duration

	// ResetAfter is how long until the whole quota is certainly free again if no other request
	// comes; 0 when it is. Callers of a [Store] may set [Never] in results that they make themselves.
	ResetAfter time.Duration

	// Delay is how long an admitted request has to be held for a queue ([Settings.Queues]); 0
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

// PassesAgainAfter returns within what time a request like that of a decided check passes again, at the latest, if the request
// passed and left nothing of the quota; 0 if something is left, or if no more than ResetAfter is known of that time.
func PassesAgainAfter(c *Check) time.Duration {
	r, terms := &c.Result, &c.Policy.Terms
	switch {
	case !r.Passes() || r.Remaining != 0 || r.ResetAfter <= 0 || !c.Takes():
		return 0
	case c.Charges || c.State.Scaled || c.Policy.CountsRunning || NeverPasses(c):
		return 0
	}
	tick := time.Duration(terms.Params.Tick) * time.Microsecond
	reset := int64(r.ResetAfter / tick)
	if r.ResetAfter%tick > 0 {
		reset++
	}
	again := terms.Algorithm.Kernel.Again(reset, &terms.Params, Units(c), Reserve(c))
	return max(0, r.ResetAfter-time.Duration(reset-again)*tick)
}

// AfterCharge returns the quota of a decided check as it stands after a charge, as far as the check's result tells of the state.
func AfterCharge(c *Check, units int64) Result {
	t, k, now := &c.Policy.Params, c.Policy.Algorithm.Kernel, c.State.DecidedAt
	held := kernel.State{}
	if used := t.Capacity - c.Unused(); used > 0 && c.Result.ResetAfter > 0 {
		held = k.RestoreState(used, kernel.CeilDiv(now+c.Result.ResetAfter.Microseconds(), t.Tick), now/t.Tick, t)
	}
	v := k.Decide(k.Charge(held, now/t.Tick, t, units), now/t.Tick, t, 0, 0)
	return Result{Remaining: max(0, v.Remaining-Reserve(c)), ResetAfter: t.Duration(v.Reset, now%t.Tick)}
}

// Allowed reports whether all checks passed. Only then were they charged.
func Allowed(checks []Check) bool {
	for i := range checks {
		if checks[i].Result.RetryAfter != 0 {
			return false
		}
	}
	return true
}

// Evaluate returns the verdict on a check at an instant in microseconds, by the state of its quota. The state of a policy
// that counts running requests is how many units run.
func Evaluate(s kernel.State, now int64, c *Check) (v kernel.Verdict) {
	t, weight, reserve := &c.Policy.Params, Units(c), int64(0)
	if c.Reserve != 0 {
		reserve = t.Reserve(c.Reserve)
	}
	if c.Policy.CountsRunning {
		return t.DecideRunning(s.A, weight, reserve)
	}
	neverPasses := weight > 0 && weight > t.Capacity-reserve
	if neverPasses {
		weight = 0
	} else {
		reserve -= c.Credit
	}
	v = c.Policy.Algorithm.Kernel.Decide(s, now/t.Tick, t, weight, reserve)
	if neverPasses {
		v.Wait = kernel.Never
	}
	return v
}

// Answer writes a verdict at an instant in microseconds to the check's result.
func Answer(c *Check, v kernel.Verdict, now int64) {
	t := &c.Policy.Params
	offset := now % t.Tick
	c.State.DecidedAt, c.State.Turn, c.State.Withheld = now, 0, 0
	c.Result = Result{
		Remaining:  v.Remaining,
		RetryAfter: t.Duration(v.Wait, offset),
		ResetAfter: t.Duration(v.Reset, offset),
		Delay:      t.Duration(v.Delay, offset),
	}
	if c.Reserve != 0 {
		Withhold(c, v.BeyondQueue)
	}
}

// Withhold completes the result of a check that has a reserve. Kernels and scripts decide by a reserve, and answer
// with all that remains: here the units for others are hidden, and a denial for their sake alone is marked. Nothing is
// shown if the units for others are beyond the queue, see [kernel.Verdict].
func Withhold(c *Check, beyondQueue bool) {
	r, shown := &c.Result, int64(0)
	if !beyondQueue {
		shown = max(0, r.Remaining-Reserve(c))
	}
	r.ForOthers = !r.Passes() && !r.Banned && r.Remaining >= Units(c)
	c.State.Withheld, r.Remaining = r.Remaining-shown, shown
}

// Ban adds a ban of the given microseconds to the result of a check that is not above the capacity.
func Ban(c *Check, left int64, begins bool) {
	r := &c.Result
	r.Banned, r.BanBegins, r.BanLeft = true, begins, Duration(left)
	r.Remaining, r.Delay, r.ForOthers = 0, 0, false
	r.ResetAfter = max(r.ResetAfter, r.BanLeft)
	if !c.Peek {
		r.RetryAfter = max(r.RetryAfter, r.BanLeft)
	}
}

// CopyAnswer copies the answer to another check of the same units.
func CopyAnswer(c *Check, other *Check) {
	c.Result, c.State.Withheld = other.Result, other.State.Withheld
}

// Binding returns the index of the check whose policy binds. Among denials that is one that can
// never pass, then the longest RetryAfter; otherwise the smallest fraction of its capacity left.
// Ties go to the first. It is -1 if there are no checks.
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

// smallerFraction reports whether a/b < c/d, for 0 <= a <= b and 0 <= c <= d.
func smallerFraction(a, b, c, d int64) bool {
	high1, low1 := bits.Mul64(uint64(a), uint64(d))
	high2, low2 := bits.Mul64(uint64(c), uint64(b))
	return high1 < high2 || (high1 == high2 && low1 < low2)
}

// Duration converts microseconds; [kernel.Never] becomes [Never].
func Duration(micros int64) time.Duration {
	if micros < 0 {
		return Never
	}
	return time.Duration(micros) * time.Microsecond
}
