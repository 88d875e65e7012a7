package simulate

import (
	"container/heap"
	"slices"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// ending is what a response does when it ends: it settles what its request took, and returns the units of a
// running request.
type ending struct {
	at      int64           // microseconds
	begun   []limiter.Check // that have units of a running request
	settled *settlement     // nil for a running request
}

// settlement is what a request took, and what it costs.
type settlement struct {
	check  limiter.Check
	cost   int64
	source limiter.Source
}

// endings is a heap, the next one first.
type endings []*ending

func (h endings) Len() int           { return len(h) }
func (h endings) Less(i, j int) bool { return h[i].at < h[j].at }
func (h endings) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *endings) Push(end any) {
	*h = append(*h, end.(*ending)) //nolint:forcetypeassert,errcheck // the heap holds nothing else
}
func (h *endings) Pop() any {
	last := len(*h) - 1
	end := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return end
}

// begin keeps of checks that passed those whose units are returned when the request ends, and how long queues
// have the request wait.
func (s *Simulation) begin(made *gate.Decision) {
	for i := range made.Checks {
		if made.Checks[i].Policy.CountsRunning {
			s.begun = append(s.begun, made.Checks[i])
		}
	}
	if !made.DryRun {
		s.held += gate.LongestDelay(made.Checks).Microseconds()
	}
}

// run has the request run until it ends.
func (s *Simulation) run() {
	if len(s.begun) > 0 {
		s.atEnd(ending{begun: slices.Clone(s.begun)})
	}
}

// atEnd applies something when the response ends. It lasts as long as in the log, after the queues. That of a
// request that a policy refuses ends at once, as does one without a duration in the log.
func (s *Simulation) atEnd(e ending) {
	e.at = s.entry.Ends + s.held
	if s.refused != 0 || s.entry.Ends == 0 || e.at <= s.now {
		s.apply(&e)
		return
	}
	heap.Push(&s.ends, &e)
}

// apply settles what a request took, or returns the units that it had while it ran.
func (s *Simulation) apply(e *ending) {
	if e.settled != nil {
		s.store.Settle(e.settled.check, e.settled.cost, e.settled.source)
		return
	}
	s.store.EndRunning(e.begun)
}

// endUntil ends the responses that end until an instant. One that ends as another request begins makes room for it.
func (s *Simulation) endUntil(at int64) {
	for len(s.ends) > 0 && s.ends[0].at <= at {
		ended, _ := heap.Pop(&s.ends).(*ending)
		s.now = ended.at
		s.apply(ended)
	}
}
