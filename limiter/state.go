package limiter

// State is the state of one key in one policy outside of any store, for callers that keep many by
// their own means, such as a replay. The zero State is that of a client that was never seen. A State
// of sliding_window_log holds its entries by reference: a copy of it is not independent.
type State struct{ state state }

// Take decides a request of this weight at an instant, in microseconds since the Unix epoch, and
// charges it if it passes, exactly as [Memory] does. All takes of a State must name the same policy,
// or policies that differ in limit and burst alone. Instants may run backwards. Weight 0 takes
// nothing, one above the capacity gets [Never]; it is never negative. Take is not safe for
// concurrent use.
func (s *State) Take(p *Policy, now, weight int64) Result {
	c := Check{Policy: p, Weight: weight}
	v := evaluate(s.state, now, &c)
	if v.wait == 0 && weight > 0 {
		s.state = p.algorithm.kernel.take(s.state, &p.params, v)
	}
	c.answer(v, now)
	return c.Result
}
