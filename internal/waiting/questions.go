package waiting

import "github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"

// This file answers what operators ask about a queue, and changes nothing.

// ByPolicy returns the waits of each policy by its name. Policies for which no request waits are missing.
func (q *Queue[H]) ByPolicy() map[string]Waits {
	found := map[string]Waits{}
	if q.waiting.Load() == 0 {
		return found
	}
	now := q.around.Now()
	for s := range q.shards.All() {
		s.mu.Lock()
		for _, l := range s.lines {
			if h := l.head(); h != nil {
				name := h.request.Policy.Name()
				found[name] = found[name].And(l.waits(now))
			}
		}
		s.mu.Unlock()
	}
	return found
}

// OfKey returns the waits of one key under a policy.
func (q *Queue[H]) OfKey(p *limiter.Policy, key limiter.EncodedKey) Waits {
	now, s := q.around.Now(), q.shards.Of(key.String())
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.lines[limiter.QuotaName{Policy: p.ID, Key: key.String()}]; l != nil {
		return l.waits(now)
	}
	return Waits{}
}

// Admits reports whether a request that has to wait now would wait: with no room the request is refused.
func (q *Queue[H]) Admits(r Request) bool {
	s := q.shards.Of(r.Key.String())
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lines[limiter.QuotaName{Policy: r.Policy.ID, Key: r.Key.String()}]
	if l != nil && l.isFull(&r) || q.around.Room.isFull() {
		return l != nil && l.behind(r.Order) != nil
	}
	return true
}
