package limiter

import (
	"time"
)

// state is the state of one key in one policy. Each kernel gives the numbers their meaning; all zero
// is the state of a client that was never seen.
type state struct {
	numbers
	log   *unitLog // sliding_window_log only
	holes *holes   // buckets whose units were refunded only
}

// numbers are the whole state of the algorithms that keep no log, but for the refunds of buckets.
type numbers struct{ a, b, c int64 }

// State is the state of one key in one policy outside of any store, for callers that keep many by
// their own means, such as a replay. The zero State is that of a client that was never seen. A State
// of sliding_window_log holds its entries by reference: a copy of it is not independent.
type State struct {
	numbers numbers
	log     *unitLog
	ban     banState
}

// Take decides a request of this weight at an instant, in microseconds since the Unix epoch, and
// charges it if it passes, exactly as [Memory] does. All takes of a State must name the same policy,
// or policies that differ in limit and burst alone. Instants may run backwards. Weight 0 takes
// nothing, one above the capacity gets [Never]; it is never negative. Take is not safe for
// concurrent use.
func (s *State) Take(p *Policy, now, weight int64) Result { return s.TakeReserving(p, now, weight, 0) }

// TakeReserving does what Take does for a request with a [Check].Reserve.
func (s *State) TakeReserving(p *Policy, now, weight, reserve int64) Result {
	c := Check{Policy: p, Weight: weight, Reserve: reserve, Peek: weight == 0}
	held := state{numbers: s.numbers, log: s.log}
	v := evaluate(held, now, &c)
	if p.ban != nil && v.wait >= 0 {
		if left := p.ban.left(s.ban, now); left > 0 {
			c.answer(peekVerdict(held, now, &c, v), now)
			c.ban(left, false)
			return c.Result
		}
	}
	if v.wait == 0 && weight > 0 {
		held = p.algorithm.kernel.take(held, &p.params, v, false)
		s.numbers, s.log = held.numbers, held.log
	}
	c.answer(v, now)
	if p.ban != nil && v.wait > 0 && !c.Result.ForOthers && p.ban.counts(s.ban, now, p) {
		var begins int64
		if s.ban, begins = p.ban.denied(s.ban, now); begins > 0 {
			c.ban(begins, true)
		}
	}
	return c.Result
}

// evaluate returns the kernel's verdict on a check at an instant in microseconds.
func evaluate(s state, now int64, c *Check) verdict {
	t := &c.Policy.params
	weight, reserve := c.units(), c.reserve()
	if weight > 0 && weight > t.capacity-reserve {
		v := c.Policy.algorithm.kernel.decide(s, now/t.tick, t, 0, reserve)
		v.wait = -1
		return v
	}
	return c.Policy.algorithm.kernel.decide(s, now/t.tick, t, weight, reserve)
}

// answer writes a verdict at an instant in microseconds to the check's result.
func (c *Check) answer(v verdict, now int64) {
	t := &c.Policy.params
	offset := now % t.tick
	c.asOf, c.turn = now, 0
	c.Result = Result{
		Remaining:  v.remaining,
		RetryAfter: duration(t.micros(v.wait, offset)),
		ResetAfter: duration(t.micros(v.reset, offset)),
		Delay:      duration(t.micros(v.delay, offset)),
	}
	c.withhold()
}

// duration converts microseconds; -1 becomes [Never].
func duration(micros int64) time.Duration {
	if micros < 0 {
		return Never
	}
	return time.Duration(micros) * time.Microsecond
}

// peekVerdict returns the verdict on a check that a ban denies: it takes nothing.
func peekVerdict(s state, now int64, c *Check, v verdict) verdict {
	if v.wait == 0 {
		peek := *c
		peek.Peek = true
		return evaluate(s, now, &peek)
	}
	return v
}
