package waiting

import (
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// exitSpan is how often the queue asks whether the process ends, while a request waits.
const exitSpan = 50 * time.Millisecond

// tickSpan is the least time between two looks at what is due.
const tickSpan = time.Millisecond

// watch has the queue look at a moment at the latest, and soon whether the process ends.
func (q *Queue[H]) watch(at clock.Moment) {
	now := q.around.Now()
	q.ticks.StartBy(min(at, now.Add(exitSpan)), now)
}

// tick ends the wait of requests whose time is over, and asks for the lines that are due, again and again while a request
// waits.
func (q *Queue[H]) tick() {
	if q.around.Exiting() {
		q.refuseAll(false)
	}
	next := never
	for i := range limiter.ShardCount {
		s := &q.shards[(q.next+i)%limiter.ShardCount]
		next = min(next, q.serve(s))
	}
	q.next++
	if q.waiting.Load() > 0 {
		q.watch(max(next, q.around.Now().Add(tickSpan)))
	}
}

// serve does what is due in a shard, and returns when something is next.
func (q *Queue[H]) serve(s *shard[H]) (next clock.Moment) {
	todo := effects[H]{queue: q}
	s.mu.Lock()
	now := q.around.Now()
	for t := s.deadlines.first(); t != nil && t.over <= now; t = s.deadlines.first() {
		l := t.flow.line
		if s.deadlines.remove(t); l.round.asking > 0 && !l.round.full {
			l.overdue = append(l.overdue, t) // the key may have a free place for the request
			continue
		}
		todo.refuseQueued(s, t, ErrTimeout)
		q.tidy(s, l)
	}
	next = never
	for l := s.due.first(); l != nil; l = s.due.first() {
		if next = l.next; next > now {
			break
		}
		again, ok := q.budget.take(now)
		if !ok {
			next = again
			break
		}
		next = never
		q.ask(s, l, &todo, 0)
	}
	if t := s.deadlines.first(); t != nil {
		next = min(next, t.over)
	}
	s.mu.Unlock()
	todo.run()
	return next
}
