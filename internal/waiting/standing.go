package waiting

import "github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"

// Standing is what applies to a request that waits, which configurations and operators change: [Under], [Free] or [Blocked].
type Standing interface{ isStanding() }

// Under says that a policy decides, with the ID of the request's own and perhaps another limit.
type Under struct{ Policy *limiter.Policy }

// Free says that the request needs no units: it starts at once.
type Free struct {
	// Exempted says that an operator has exempted the request; otherwise the policy has no limit for it.
	Exempted bool
}

// Blocked says that the request is refused, with [ErrBlocked].
type Blocked struct{}

func (Under) isStanding()   {}
func (Free) isStanding()    {}
func (Blocked) isStanding() {}

// refresh looks up what applies to the request. The error says why it cannot start; free is nil unless it needs no units.
func (t *Ticket[H]) refresh() (free *Free, why error) {
	r := &t.request
	if r.Current == nil {
		return nil, nil //nolint:nilnil // it waits on
	}
	switch current := r.Current().(type) {
	case Under:
		r.Policy = current.Policy
		return nil, r.fits()
	case Free:
		return &current, nil
	}
	return nil, ErrBlocked
}

// reconsider starts or refuses a request by what applies to it now, and reports whether it waits on instead. The shard's lock
// is held.
func (q *Queue[H]) reconsider(s *shard[H], t *Ticket[H], todo *effects[H]) (waits bool) {
	switch free, why := t.refresh(); {
	case free != nil:
		q.dequeue(s, t)
		todo.startFree(t, free, q.options.Now().Since(t.arrived))
	case why != nil:
		todo.refuseQueued(s, t, why)
	default:
		return true
	}
	return false
}

// Reconsider is called after what applies to requests of a policy may have changed; without a name, of all policies. Those
// that are free now start, those that are blocked or can never start are refused, and the store is asked for the others under
// a new limit at once.
func (q *Queue[H]) Reconsider(policy string) {
	if q.waiting.Load() == 0 {
		return // who comes from now on looks by itself
	}
	for s := range q.shards.All() {
		todo := effects[H]{queue: q}
		s.mu.Lock()
		for _, l := range s.lines {
			if h := l.head(); h != nil && (policy == "" || policy == h.request.Policy.Name()) {
				q.reconsiderLine(s, l, &todo)
			}
		}
		s.mu.Unlock()
		todo.run()
	}
}

// reconsiderLine reconsiders all that wait in a line, in which a request waits. The shard's lock is held.
func (q *Queue[H]) reconsiderLine(s *shard[H], l *line[H], todo *effects[H]) {
	before, policy := l.head(), l.head().request.Policy
	for _, t := range l.tickets() {
		q.reconsider(s, t, todo)
	}
	if h := l.head(); h != nil && (h != before || h.request.Policy != policy) {
		q.ask(s, l, todo, 0)
	}
	q.tidy(s, l)
}
