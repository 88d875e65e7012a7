package simulate

import (
	"slices"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
)

// ending is what a response does when it ends: it settles what its request took, and returns the units of a
// running request.
type ending struct {
	at    int64 // microseconds
	apply func()
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

// run has the request run until it ends.
func (s *Simulation) run() {
	if len(s.begun) == 0 {
		return
	}
	begun := slices.Clone(s.begun)
	s.atEnd(func() { s.store.EndRunning(begun) })
}

// atEnd applies something when the response ends. It lasts as long as in the log, after the queues. That of a
// request that a policy refuses ends at once, as does one without a duration in the log.
func (s *Simulation) atEnd(apply func()) {
	at := s.entry.Ends + s.held
	if s.refused != 0 || s.entry.Ends == 0 || at <= s.now {
		apply()
		return
	}
	s.ends.Push(ending{at: at, apply: apply})
}

// endUntil ends the responses that end until an instant. One that ends as another request begins makes room for it.
func (s *Simulation) endUntil(at int64) {
	for s.ends.Len() > 0 && s.ends.First().at <= at {
		ended := s.ends.Pop()
		s.now = ended.at
		ended.apply()
	}
}
