package waiting

import (
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
)

// effects are what is to be done once the shard's lock is free again: few things, but where all requests are refused.
type effects[H any] struct {
	queue    *Queue[H]
	releases []H
	starts   []starting[H]
	free     []startingFree[H]
	refusals []refusal[H]
	asks     []sent[H]
	due      clock.Moment // when the queue has to look again; 0: not for these effects
}

// starting is a request that starts, and what it was granted.
type starting[H any] struct {
	ticket *Ticket[H]
	grant  grant[H]
	waited time.Duration
}

// startingFree is a request that starts without units.
type startingFree[H any] struct {
	ticket *Ticket[H]
	free   *Free
	waited time.Duration
}

// refusal is a request that gets no place.
type refusal[H any] struct {
	ticket *Ticket[H]
	why    error
}

func (e *effects[H]) release(held H) { e.releases = append(e.releases, held) }
func (e *effects[H]) refuse(t *Ticket[H], why error) {
	e.refusals = append(e.refusals, refusal[H]{t, why})
}
func (e *effects[H]) ask(m sent[H]) { e.asks = append(e.asks, m) }

func (e *effects[H]) start(t *Ticket[H], g grant[H], waited time.Duration) {
	e.starts = append(e.starts, starting[H]{t, g, waited})
}

func (e *effects[H]) startFree(t *Ticket[H], free *Free, waited time.Duration) {
	e.free = append(e.free, startingFree[H]{t, free, waited})
}

// refuseQueued takes a request out of the queue, and refuses it. The shard's lock is held.
func (e *effects[H]) refuseQueued(s *shard[H], t *Ticket[H], why error) {
	e.queue.dequeue(s, t)
	e.refuse(t, why)
}

// wake has the queue look again at a moment.
func (e *effects[H]) wake(at clock.Moment) {
	if e.due == 0 || at < e.due {
		e.due = at
	}
}

// run does all of that: what is free first, then what is asked for.
func (e *effects[H]) run() {
	for _, held := range e.releases {
		e.queue.store.Release(held)
	}
	for _, s := range e.starts {
		s.ticket.ended <- waitEnd[H]{place: e.queue.placeOf(s)}
	}
	for _, s := range e.free {
		s.ticket.ended <- waitEnd[H]{place: &Place[H]{Free: s.free, Waited: s.waited}}
	}
	for _, r := range e.refusals {
		r.ticket.ended <- waitEnd[H]{err: r.why}
	}
	for i := range e.asks {
		m := &e.asks[i]
		e.queue.store.Try(m.ask, func(a Answer[H]) { e.queue.answered(m, a) })
	}
	if e.due != 0 {
		e.queue.watch(e.due)
	}
}

// placeOf returns the place of a request that starts. Units that the request does not need are returned.
func (q *Queue[H]) placeOf(s starting[H]) *Place[H] {
	r, held := &s.ticket.request, s.grant.held
	if s.grant.handedOn || r.Weight < s.grant.units {
		held = q.store.HandOn(held, r.Weight)
	}
	return &Place[H]{
		Held: held, HandedOn: s.grant.handedOn, Waited: s.waited,
		queue: q, policy: r.Policy, key: r.Key, units: r.Weight,
	}
}
