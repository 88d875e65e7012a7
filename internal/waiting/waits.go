package waiting

import (
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Waits is how many requests wait, and for how long the oldest of them has waited so far. The zero value: none waits.
type Waits struct {
	Count  int
	Oldest time.Duration
}

// And returns the waits of both.
func (w Waits) And(other Waits) Waits {
	return Waits{w.Count + other.Count, max(w.Oldest, other.Oldest)}
}

// ByPolicy returns the waits of each policy by its name. Policies for which none waits are missing.
func (q *Queue[H]) ByPolicy() map[string]Waits {
	found := map[string]Waits{}
	if q.waiting.Load() == 0 {
		return found
	}
	now := q.options.Now()
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
	now, s := q.options.Now(), q.shards.Of(key.String())
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.lines[limiter.QuotaName{Policy: p.ID, Key: key.String()}]; l != nil {
		return l.waits(now)
	}
	return Waits{}
}
