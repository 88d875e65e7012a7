package limiter

import (
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
)

// Evaluate returns the verdict on a check at an instant in microseconds, by the state of its quota. The state of a policy
// that counts running requests is how many units run.
func Evaluate(s kernel.State, now int64, c *Check) kernel.Verdict {
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
	}
	v := c.Policy.Algorithm.Kernel.Decide(s, now/t.Tick, t, weight, reserve)
	if neverPasses {
		v.Wait = -1
	}
	return v
}

// PeekVerdict returns the verdict on a check that a ban denies: it takes nothing.
func PeekVerdict(s kernel.State, now int64, c *Check, v kernel.Verdict) kernel.Verdict {
	if v.Wait == 0 {
		peek := *c
		peek.Peek = true
		return Evaluate(s, now, &peek)
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
		Withhold(c)
	}
}

// Withhold completes the result of a check with a reserve. Kernels and scripts decide by a reserve, and answer
// with all that remains: here the units for others are hidden, and a denial for their sake alone is marked.
func Withhold(c *Check) {
	c.State.Withheld = 0
	if c.Reserve == 0 {
		return
	}
	r, shown := &c.Result, int64(0)
	if r.Remaining < 0 {
		r.Remaining = kernel.BeyondQueue(r.Remaining)
	} else {
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

// Duration converts microseconds; -1 becomes [Never].
func Duration(micros int64) time.Duration {
	if micros < 0 {
		return Never
	}
	return time.Duration(micros) * time.Microsecond
}
