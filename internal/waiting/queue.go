// Package waiting is the queue of one node for units of running requests, on all nodes together: who waits here, in which
// order, and when the node asks the store that all nodes share. The store decides between the nodes, see
// [kernel.WaitingState]. It may import limiter, kernel and internal/clock.
//
// Requests of a key wait in a line. Without values the oldest request has the next place. With values, turns go round: a
// value's turn is as old as its wait, or its last start. The node asks for the head of the line alone, one ask at a time:
//
//	0 ms    A request arrives, none waits: an ask leaves, and is denied. The store keeps the node's claim.
//	2 ms    Another request arrives, and waits behind the first.
//	4 ms    The node asks again, and is denied.
//	9 ms    A request of this node ends. The last answer is 5 ms old and told of no older claim of another node: the head
//	        has the place at once, and the store hears nothing.
//	12 ms   The node asks for the second request. The store grants one more place, and has three free: as many asks
//	        leave at once as requests wait.
package waiting

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Queue is the requests of one process that wait for units of one store. It is safe for concurrent use. H is what the
// store gives out with units.
type Queue[H any] struct {
	store   Decider[H]
	around  Environment
	shards  limiter.Shards[shard[H]]
	waiting atomic.Int64
	rates   atomic.Int64 // of all lines: how many asks in 1,000 seconds
	ticks   clock.Task
	budget  budget // only the tick uses it
	next    int    // the shard that the next tick begins with; only the tick uses it
}

// Environment is what a queue needs besides its store. Each field has a default.
type Environment struct {
	// Room bounds how many requests wait, with all that shares it. Default: one of the queue's own of 65,536.
	Room *Room

	// Exiting reports whether waits have to end because the process does: all requests are refused then. It is called for
	// each request, and every 50 ms while one waits. Default: never.
	Exiting func() bool

	Now    func() clock.Moment                         // Default: [clock.Now]
	After  func(d time.Duration, f func()) clock.Timer // makes the queue's one timer. Default: [time.AfterFunc]
	Jitter func() float64                              // from 0 to 1, which it excludes. Default: [rand.Float64]
}

// Room is how many requests may wait at once.
type Room struct {
	most int64
	used atomic.Int64
}

// MostWaiting is how many requests wait in a process at most, by default. Each keeps a connection and some memory.
const MostWaiting = 65_536

// NewRoom returns an empty room for so many requests.
func NewRoom(most int64) *Room { return &Room{most: most} }

// Used returns how many are in the room.
func (r *Room) Used() int64 { return r.used.Load() }

func (r *Room) isFull() bool { return r.used.Load() >= r.most }

// Enter counts one more, if there is room.
func (r *Room) Enter() bool {
	if r.used.Add(1) <= r.most {
		return true
	}
	r.used.Add(-1)
	return false
}

// Leave counts one less, which has entered.
func (r *Room) Leave() { r.used.Add(-1) }

// shard is the lines of some keys.
type shard[H any] struct {
	mu        sync.Mutex
	lines     map[limiter.QuotaName]*line[H]
	due       indexed[*line[H]] // that ask again by themselves
	deadlines indexed[*Ticket[H]]
	closed    bool
}

// NewQueue returns an empty queue for units of a store.
func NewQueue[H any](store Decider[H], around Environment) *Queue[H] {
	if around.Room == nil {
		around.Room = NewRoom(MostWaiting)
	}
	if around.Exiting == nil {
		around.Exiting = func() bool { return false }
	}
	if around.Now == nil {
		around.Now = clock.Now
	}
	if around.Jitter == nil {
		around.Jitter = rand.Float64
	}
	q := &Queue[H]{store: store, around: around}
	q.ticks.Run, q.ticks.After = q.tick, around.After
	for s := range q.shards.All() {
		s.lines = map[limiter.QuotaName]*line[H]{}
	}
	return q
}

// Join has a request wait, and asks for it at once if no other one of its key waits. [Ticket.Wait] or [Ticket.Leave] must
// follow.
func (q *Queue[H]) Join(r Request) *Ticket[H] {
	now := q.around.Now()
	t := &Ticket[H]{queue: q, request: r, arrived: now, over: now.Add(r.Longest), ended: make(chan waitEnd[H], 1)}
	if err := r.fits(); err != nil {
		t.ended <- waitEnd[H]{err: err}
		return t
	}
	s, todo := q.shards.Of(r.Key.String()), effects[H]{queue: q}
	s.mu.Lock()
	q.admit(s, t, &todo)
	s.mu.Unlock()
	todo.run()
	return t
}

// admit puts a request into its line, or refuses it. The shard's lock is held.
func (q *Queue[H]) admit(s *shard[H], t *Ticket[H], todo *effects[H]) {
	if s.closed || q.around.Exiting() {
		todo.refuse(t, ErrExit)
		return
	}
	name := limiter.QuotaName{Policy: t.request.Policy.ID, Key: t.request.Key.String()}
	l := s.lines[name]
	if l == nil {
		l = newLine[H](name)
	}
	why, isFull := ErrFull, l.isFull(&t.request)
	if !isFull && !q.around.Room.Enter() {
		why, isFull = ErrNoRoom, true
	}
	if isFull {
		out := l.behind(t.request.Order)
		if out == nil {
			todo.refuse(t, why)
			return
		}
		q.dequeue(s, out)
		todo.refuse(out, ErrPushedOut)
		if !q.around.Room.Enter() { // another one has taken the room meanwhile
			todo.refuse(t, ErrNoRoom)
			return
		}
	}
	s.lines[name] = l
	q.waiting.Add(1)
	l.join(t)
	s.deadlines.add(t)
	todo.wake(t.over)
	switch {
	case l.waiting == 1 && l.round.asking == 0:
		q.ask(s, l, todo, 0)
	case q.reconsider(s, t, todo) && l.waiting == 1: // what applies may have changed since the request came
		l.round.again = true
	}
}

// headNow returns the request that has the next place, by what applies now; nil: none waits. Those before that do not wait any
// more have started or are refused. The shard's lock is held.
func (q *Queue[H]) headNow(s *shard[H], l *line[H], todo *effects[H]) *Ticket[H] {
	for h := l.head(); h != nil; h = l.head() {
		if q.reconsider(s, h, todo) {
			return h
		}
	}
	return nil
}

// reconsider starts or refuses a request by what applies to it now, and reports whether it waits on instead. The shard's lock
// is held.
func (q *Queue[H]) reconsider(s *shard[H], t *Ticket[H], todo *effects[H]) (waits bool) {
	switch free, why := t.refresh(); {
	case free != nil:
		q.dequeue(s, t)
		todo.startFree(t, free, q.around.Now().Since(t.arrived))
	case why != nil:
		todo.refuseQueued(s, t, why)
	default:
		return true
	}
	return false
}

// dequeue takes a request out of the queue. Its line stays, also without a request. The shard's lock is held.
func (q *Queue[H]) dequeue(s *shard[H], t *Ticket[H]) {
	t.flow.line.remove(t)
	q.forget(s, t)
}

// forget ends what the shard and the queue know of a request that its line has let go. The shard's lock is held.
func (q *Queue[H]) forget(s *shard[H], t *Ticket[H]) {
	s.deadlines.remove(t)
	q.waiting.Add(-1)
	q.around.Room.Leave()
}

// tidy forgets a line in which none waits, once its asks are answered. The shard's lock is held.
func (q *Queue[H]) tidy(s *shard[H], l *line[H]) {
	if l.waiting == 0 && l.round.asking == 0 {
		delete(s.lines, l.name)
		s.due.remove(l)
		q.rates.Add(-l.rate)
		l.rate = 0
	}
}

// leave takes a request out. It reports false where the request's wait has ended already.
func (q *Queue[H]) leave(t *Ticket[H]) bool {
	s := q.shards.Of(t.request.Key.String())
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.flow == nil {
		return false
	}
	l := t.flow.line
	q.dequeue(s, t)
	q.tidy(s, l)
	return true
}

// end has a place go on with the head of its line, or returns its units to the store and asks for the head.
func (q *Queue[H]) end(p *Place[H]) {
	now, todo := q.around.Now(), effects[H]{queue: q}
	name := limiter.QuotaName{Policy: p.policy.ID, Key: p.key.String()}
	s := q.shards.Of(name.Key)
	s.mu.Lock()
	var h *Ticket[H]
	l := s.lines[name]
	if l != nil {
		h = q.headNow(s, l, &todo)
	}
	if h != nil && p.suits(h) && l.news.allows(h.flow.turn, now) {
		q.start(s, l, &todo, now, grant[H]{p.Held, p.policy, p.units, true})
		if p.units > h.request.Weight { // the rest is free
			q.ask(s, l, &todo, 0)
		}
	} else {
		todo.release(p.Held)
		if h != nil {
			q.ask(s, l, &todo, 0)
		}
	}
	if l != nil {
		q.tidy(s, l)
	}
	s.mu.Unlock()
	todo.run()
}

// suits reports whether a request can have a place: it needs no more units, under the same limit.
func (p *Place[H]) suits(t *Ticket[H]) bool {
	return t.request.Weight <= p.units && t.request.Policy.Params.Limit == p.policy.Params.Limit
}

// Close refuses all requests that wait, and all that come.
func (q *Queue[H]) Close() {
	q.refuseAll(true)
	q.ticks.Stop()
}

// refuseAll refuses all requests that wait.
func (q *Queue[H]) refuseAll(closes bool) {
	for s := range q.shards.All() {
		todo := effects[H]{queue: q}
		s.mu.Lock()
		s.closed = s.closed || closes
		for t := s.deadlines.first(); t != nil; t = s.deadlines.first() {
			todo.refuseQueued(s, t, ErrExit)
		}
		for _, l := range s.lines { // those whose requests are overdue are in no heap
			for l.waiting > 0 {
				todo.refuseQueued(s, l.head(), ErrExit)
			}
			q.tidy(s, l)
		}
		s.mu.Unlock()
		todo.run()
	}
}
