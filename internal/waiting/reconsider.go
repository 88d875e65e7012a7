package waiting

// Reconsider is called after what applies to requests of a policy may have changed; without a name, of all policies.
// Requests that are free now start, requests that are blocked or can never start are refused, and the store is asked for the
// others under a new limit at once. For example, after a limit went from 10 to 2, a request of 3 units is refused.
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

// reconsiderLine reconsiders all requests of a line that has at least one. The shard's lock is held.
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
