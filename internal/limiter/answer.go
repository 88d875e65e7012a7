package limiter

import (
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
)

// CopyAnswer copies the answer to another check of the same units.
func CopyAnswer(c *Check, other *Check) {
	c.Result, c.State.Withheld = other.Result, other.State.Withheld
}

// Withhold completes the result of a check with a reserve. Kernels and scripts decide by a reserve, and answer
// with all that remains: here the units for others are hidden, and a denial for their sake alone is marked.
func Withhold(c *Check) {
	c.State.Withheld = 0
	if c.Reserve != 0 {
		withholdReserve(c)
	}
}

func withholdReserve(c *Check) {
	r, shown := &c.Result, int64(0)
	if r.Remaining < 0 {
		r.Remaining = kernel.BeyondQueue(r.Remaining)
	} else {
		shown = max(0, r.Remaining-Reserve(c))
	}
	r.ForOthers = !r.Passes() && !r.Banned && r.Remaining >= Units(c)
	c.State.Withheld, r.Remaining = r.Remaining-shown, shown
}

// Answer writes a verdict at an instant in microseconds to the check's result.
func Answer(c *Check, v kernel.Verdict, now int64) {
	t := &c.Policy.Params
	offset := now % t.Tick
	c.State.DecidedAt, c.State.Turn = now, 0
	c.Result = Result{
		Remaining:  v.Remaining,
		RetryAfter: Duration(t.Micros(v.Wait, offset)),
		ResetAfter: Duration(t.Micros(v.Reset, offset)),
		Delay:      Duration(t.Micros(v.Delay, offset)),
	}
	Withhold(c)
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

// Awaited is what a refundable check holds if others may wait for its refund.
type Awaited interface {
	// Begin notes that the check has passed and taken its units.
	Begin(c *Check)

	// End notes that the units of the check were refunded, all or some, or stay.
	End(c *Check)
}

// BeginReservation notes that a check has passed whose units may be refunded.
func BeginReservation(c *Check) {
	if r, ok := c.State.Owner.(Awaited); ok {
		r.Begin(c)
	}
}

// EndReservation notes that the units of a check were refunded or stay.
func EndReservation(c *Check) {
	if r, ok := c.State.Owner.(Awaited); ok {
		r.End(c)
	}
}

// Evaluate returns the kernel's verdict on a check at an instant in microseconds.
func Evaluate(s kernel.State, now int64, c *Check) kernel.Verdict {
	t := &c.Policy.Params
	weight, reserve := Units(c), Reserve(c)
	if weight > 0 && weight > t.Capacity-reserve {
		v := c.Policy.Algorithm.Kernel.Decide(s, now/t.Tick, t, 0, reserve)
		v.Wait = -1
		return v
	}
	return c.Policy.Algorithm.Kernel.Decide(s, now/t.Tick, t, weight, reserve)
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

// Duration converts microseconds; -1 becomes [Never].
func Duration(micros int64) time.Duration {
	if micros < 0 {
		return Never
	}
	return time.Duration(micros) * time.Microsecond
}
