package waiting

import (
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// grant is units that a store has given out.
type grant[H any] struct {
	held     H
	policy   *limiter.Policy
	units    int64
	handedOn bool
}

// ask begins a round: for the head, and with free units for the requests behind the head that the free units suffice for.
// While a round is under way another round follows. The shard's lock is held. Nothing leaves if no request waits, or all
// requests are refused now.
func (q *Queue[H]) ask(s *shard[H], l *line[H], todo *effects[H], free int64) {
	if l.round.asking > 0 {
		l.round.again = true
		return
	}
	now := q.around.Now()
	s.due.remove(l)
	if q.headNow(s, l, todo) == nil {
		q.tidy(s, l)
		return
	}
	if now < l.forgotten {
		q.schedule(s, l, todo, now)
		return
	}
	starts := l.nextStarts(now, free)
	l.round = round{asking: len(starts), free: starts[0].ticket.request.Policy.Params.Limit, full: l.round.full}
	for i, u := range starts {
		t := u.ticket
		turn := kernel.Turn{Age: u.age.Microseconds(), Slot: slotOf(t.request.Order), LastSlot: kernel.NoSlot}
		if i == 0 { // the claim is the head's
			period := stretched(claimPeriod(u.age), stretch(q.rates.Load()))
			turn.Claim = claimLength(period, l.trip).Microseconds()
			if turn.LastSlot = slotOf(l.last.order); turn.LastSlot != kernel.NoSlot {
				turn.LastAge = now.Since(l.last.at).Microseconds()
			}
		}
		todo.ask(sent[H]{shard: s, line: l, at: now, order: t.request.Order,
			ask: Ask{Policy: t.request.Policy, Key: t.request.Key, Weight: t.request.Weight, Turn: turn, FailMode: t.request.FailMode}})
	}
}

// slotOf returns the slot of a value; [kernel.NoSlot] in the order of arrival.
func slotOf(o Order) int64 {
	if !o.byValue {
		return kernel.NoSlot
	}
	return int64(o.value % kernel.TurnSlots)
}

// sent is an ask on its way.
type sent[H any] struct {
	shard *shard[H]
	line  *line[H]
	at    clock.Moment
	order Order
	ask   Ask
}

// answered takes the answer to an ask.
func (q *Queue[H]) answered(m *sent[H], answer Answer[H]) {
	s, l, todo := m.shard, m.line, effects[H]{queue: q}
	s.mu.Lock()
	now := q.around.Now()
	l.round.asking--
	switch a := answer.(type) {
	case Granted[H]:
		l.learn(a.Claim, m.at, now)
		l.round.grants++
		l.round.free = min(l.round.free, a.Free)
		q.place(s, l, &todo, now, grant[H]{a.Held, m.ask.Policy, m.ask.Weight, false})
	case Denied[H]:
		l.learn(a.Claim, m.at, now)
		l.round.free = 0
		before := l.head()
		l.postpone(m.order, m.at.Add(-a.TurnAge))
		l.round.again = l.round.again || l.head() != before
	case Forgotten[H]:
		l.round.free, l.round.again = 0, false
		l.forgotten = now.Add(stretched(longestPeriod, stretch(q.rates.Load())))
	default: // Unknown
		l.news.unknown++
		l.round.free = 0
	}
	if l.round.asking == 0 {
		q.endRound(s, l, &todo, now)
	}
	s.mu.Unlock()
	todo.run()
}

// place gives units to the head of a line. Where the head needs more units, or no request waits, the units are released:
// requests that need fewer units stay behind the head. The shard's lock is held.
func (q *Queue[H]) place(s *shard[H], l *line[H], todo *effects[H], now clock.Moment, g grant[H]) {
	h := q.headNow(s, l, todo)
	if h == nil {
		todo.release(g.held)
		return
	}
	if p := (Place[H]{units: g.units, policy: g.policy}); !p.suits(h) {
		todo.release(g.held)
		l.round.again = true
		return
	}
	l.round.again = l.round.again || h.request.Weight < g.units // the rest is free
	q.start(s, l, todo, now, g)
}

// start has the head of a line start with a grant that suits it. The shard's lock is held.
func (q *Queue[H]) start(s *shard[H], l *line[H], todo *effects[H], now clock.Moment, g grant[H]) {
	t := l.begin(now)
	q.forget(s, t)
	todo.start(t, g, now.Since(t.arrived))
}

// endRound ends a round whose asks are answered, and plans the next one. The shard's lock is held.
func (q *Queue[H]) endRound(s *shard[H], l *line[H], todo *effects[H], now clock.Moment) {
	r := l.round
	if r.grants == 0 {
		r.free = 0
	}
	l.round = round{full: r.free == 0}
	if l.round.full {
		for _, t := range l.overdue {
			if t.flow != nil {
				todo.refuseQueued(s, t, ErrTimeout)
			}
		}
		l.overdue = nil
		for f := l.lengths.first().flow; f != nil && l.waiting > f.last.request.Most; f = l.lengths.first().flow {
			todo.refuseQueued(s, f.last, ErrFull) // the requests might have started with the others
		}
	}
	switch {
	case l.waiting == 0:
		q.tidy(s, l)
	case r.free > 0 || r.again:
		q.ask(s, l, todo, r.free)
	default:
		q.schedule(s, l, todo, now)
	}
}

// schedule sets when a line asks by itself. The shard's lock is held, and a request waits.
func (q *Queue[H]) schedule(s *shard[H], l *line[H], todo *effects[H], now clock.Moment) {
	period := l.news.period(now.Since(l.head().flow.turn))
	rate := rateOf(period)
	period = stretched(period, stretch(q.rates.Add(rate-l.rate)))
	l.rate = rate
	next := max(l.forgotten, now.Add(time.Duration(float64(period)*(1+q.around.Jitter())/2)))
	if l.next <= now || next < l.next { // else an ask that an end has caused came between
		l.next = next
	}
	s.due.add(l)
	todo.wake(l.next)
}
