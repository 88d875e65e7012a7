package memory

import (
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// State is the state of one key in one policy outside of any store, for callers that keep many by
// their own means, such as a replay. The zero State is that of a client that was never seen. A State
// of sliding_window_log holds its entries by reference: a copy of it is not independent.
type State struct {
	numbers kernel.Numbers
	log     *kernel.UnitLog
	ban     kernel.BanState
}

// Take decides a request of this weight at an instant, in microseconds since the Unix epoch, and
// charges it if it passes, exactly as [Store] does. All takes of a State must name the same policy,
// or policies that differ in limit and burst alone. Instants may run backwards. Weight 0 takes
// nothing, one above the capacity gets [limiter.Never]; it is never negative. Take is not safe for
// concurrent use.
func (s *State) Take(p *limiter.Policy, now, weight int64) limiter.Result {
	return s.TakeReserving(p, now, weight, 0)
}

// TakeReserving does what Take does for a request with a [limiter.Check].Reserve.
func (s *State) TakeReserving(p *limiter.Policy, now, weight, reserve int64) limiter.Result {
	c := limiter.Check{Policy: p, Weight: weight, Reserve: reserve, Peek: weight == 0}
	if p.CountsRunning {
		return s.takeRunning(&c, now)
	}
	held := kernel.State{Numbers: s.numbers, Log: s.log}
	v := limiter.Evaluate(held, now, &c)
	if p.Ban != nil && v.Wait >= 0 {
		if left := p.Ban.Left(s.ban, now); left > 0 {
			limiter.Answer(&c, limiter.PeekVerdict(held, now, &c, v), now)
			limiter.Ban(&c, left, false)
			return c.Result
		}
	}
	if v.Wait == 0 && weight > 0 {
		held = p.Algorithm.Kernel.Take(held, &p.Params, v, false)
		s.numbers, s.log = held.Numbers, held.Log
	}
	limiter.Answer(&c, v, now)
	if p.Ban != nil && v.Wait > 0 && !c.Result.ForOthers && p.Ban.Counts(s.ban, now, p.Params.Capacity, p.Refunds) {
		var begins int64
		if s.ban, begins = p.Ban.Denied(s.ban, now); begins > 0 {
			limiter.Ban(&c, begins, true)
		}
	}
	return c.Result
}

// takeRunning decides a request that never ends.
func (s *State) takeRunning(c *limiter.Check, now int64) limiter.Result {
	v := c.Policy.Params.DecideRunning(s.numbers.A, limiter.Units(c), limiter.Reserve(c))
	if v.Wait == 0 {
		s.numbers.A += limiter.Units(c)
	}
	limiter.Answer(c, v, now)
	return c.Result
}
