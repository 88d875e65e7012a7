package simulate

import (
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// runningEnd is when a request ends that has units of a policy until then.
type runningEnd struct {
	at    int64 // microseconds
	check limiter.Check
}

// begin keeps of checks that passed those whose units are returned when the request ends, and how long queues
// have the request wait.
func (s *Simulation) begin(q *gate.Question) {
	for i := range q.Checks {
		if q.Checks[i].Policy.CountsRunning() {
			s.begun = append(s.begun, q.Checks[i])
		}
	}
	if !q.DryRun {
		s.held += gate.Delay(q.Checks).Microseconds()
	}
}

// run has the request run for as long as it did in the log, after the queues. A request that a policy refuses
// ends at once, as does one without a duration in the log.
func (s *Simulation) run() {
	if len(s.begun) == 0 {
		return
	}
	at := s.entry.Ends + s.held
	if s.refused != 0 || s.entry.Ends == 0 || at <= s.now {
		s.store.EndRunning(s.begun)
		return
	}
	for i := range s.begun {
		s.ends.Push(runningEnd{at: at, check: s.begun[i]})
	}
}

// endUntil ends the requests that end until an instant. One that ends as another begins makes room for it.
func (s *Simulation) endUntil(at int64) {
	for s.ends.Len() > 0 && s.ends.First().at <= at {
		ended := s.ends.Pop()
		s.now = ended.at
		s.store.EndRunning([]limiter.Check{ended.check})
	}
}
