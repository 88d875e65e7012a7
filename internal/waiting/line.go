package waiting

import (
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// line is what waits for one key on this node. Its shard's lock guards it.
type line[H any] struct {
	name    limiter.QuotaName
	flows   map[Order]*flow[H]
	turns   indexed[byTurn[H]]
	lengths indexed[byLength[H]]
	waiting int
	ranks   uint64 // given out so far

	round   round
	news    news
	last    start         // the last start of a value
	overdue []*Ticket[H]  // requests that have waited for as long as they may, while the key may still have had free places
	rate    int64         // the line's part in the asks of the process: how many in 1,000 seconds
	trip    time.Duration // between the last ask and its answer

	next      clock.Moment // when the next ask is due, while no round is under way
	forgotten clock.Moment // until when other nodes tell what they run, which the store may have forgotten: no ask leaves before
	index     int          // in its shard's heap of asks that are due
}

// mostAsks is how many asks leave at once for a key: a batch. Further asks follow after the answers.
const mostAsks = 64

// round is a line's asks that are under way: one, or after a grant as many as the store has free units for.
type round struct {
	asking int   // answers that are still to come
	grants int   // so far
	free   int64 // the least that a grant has left; 0 where an ask was not granted
	again  bool  // something has changed since the asks left: another round follows at once
	full   bool  // the round before has shown that the key has no free unit
}

// start is when a request of a value has started.
type start struct {
	order Order
	at    clock.Moment
}

func newLine[H any](name limiter.QuotaName) *line[H] {
	return &line[H]{name: name, flows: map[Order]*flow[H]{}}
}

// isFull reports whether as many requests wait as may. Until the store has denied an ask, as many requests as the limit has
// units may be about to start, and do not count: with a limit of 10 of which 5 may wait, the line is full at 15. Requests
// beyond the 5 are refused once a round shows that the key has no free unit.
func (l *line[H]) isFull(r *Request) bool {
	most := int64(r.Most)
	if !l.round.full {
		most += r.Policy.Params.Limit
	}
	return int64(l.waiting) >= most
}

func (l *line[H]) before(other *line[H]) bool { return l.next < other.next }
func (l *line[H]) place() *int                { return &l.index }

// waits returns how many requests of the line wait, and for how long the oldest request does.
func (l *line[H]) waits(now clock.Moment) Waits {
	w := Waits{Count: l.waiting}
	for _, f := range l.flows {
		w.Oldest = max(w.Oldest, now.Since(f.first.arrived))
	}
	return w
}

// head returns the request that has the next place; nil: no request waits.
func (l *line[H]) head() *Ticket[H] {
	if f := l.turns.first(); f.flow != nil {
		return f.first
	}
	return nil
}

// tickets returns all requests that wait, the requests of one value in the order of their arrival.
func (l *line[H]) tickets() []*Ticket[H] {
	all := make([]*Ticket[H], 0, l.waiting)
	for _, f := range l.flows {
		for t := f.first; t != nil; t = t.later {
			all = append(all, t)
		}
	}
	return all
}

// join puts a request in.
func (l *line[H]) join(t *Ticket[H]) {
	f := l.flows[t.request.Order]
	if f == nil {
		f = &flow[H]{order: t.request.Order, line: l, turn: t.arrived, rank: l.nextRank()}
		l.flows[f.order] = f
	}
	f.append(t)
	l.waiting++
	if f.length == 1 {
		l.turns.add(byTurn[H]{f})
		l.lengths.add(byLength[H]{f})
	} else {
		l.lengths.fix(byLength[H]{f})
	}
}

// remove takes a request out.
func (l *line[H]) remove(t *Ticket[H]) {
	f := t.flow
	f.remove(t)
	l.waiting--
	if f.length == 0 {
		delete(l.flows, f.order)
		l.turns.remove(byTurn[H]{f})
		l.lengths.remove(byLength[H]{f})
		return
	}
	l.lengths.fix(byLength[H]{f})
	if !f.order.byValue {
		f.turn = f.first.arrived
		l.turns.fix(byTurn[H]{f})
	}
}

// begin takes the head out, which starts.
func (l *line[H]) begin(now clock.Moment) *Ticket[H] {
	t := l.head()
	f := t.flow
	l.remove(t)
	if f.order.byValue {
		l.last = start{f.order, now}
		f.turn, f.rank = now, l.nextRank()
		l.turns.fix(byTurn[H]{f})
	}
	return t
}

func (l *line[H]) nextRank() uint64 {
	l.ranks++
	return l.ranks
}

// behind returns the request that a newcomer pushes out where there is no room: the last request of the longest flow, if that
// flow has at least two requests more than the newcomer's flow; else nil. For example, a newcomer of a flow of 1 pushes out
// the last request of a flow of 3, and no request of a flow of 2.
func (l *line[H]) behind(newcomer Order) *Ticket[H] {
	own := 0
	if f := l.flows[newcomer]; f != nil {
		own = f.length
	}
	if longest := l.lengths.first(); longest.flow != nil && longest.length >= own+2 {
		return longest.last
	}
	return nil
}

// postpone moves a flow's turn to a later moment, which an answer has told.
func (l *line[H]) postpone(order Order, turn clock.Moment) {
	if f := l.flows[order]; f != nil && order.byValue && turn > f.turn {
		f.turn = turn
		l.turns.fix(byTurn[H]{f})
	}
}

// learn takes what an answer tells beside whether units are taken.
func (l *line[H]) learn(c Claim, sent, now clock.Moment) {
	l.news.learn(c, sent, now)
	l.trip = now.Since(sent)
}

// nextStarts returns the requests that would start one after the other with so many free units, in that order, and with the
// age that the turn of each request would have. Where no request fits it returns the head.
func (l *line[H]) nextStarts(now clock.Moment, free int64) (starts []upcoming[H]) {
	type saved struct {
		flow *flow[H]
		turn clock.Moment
		rank uint64
	}
	var changed []saved
	rank, most := l.ranks, min(l.waiting, mostAsks)
	next := map[*flow[H]]*Ticket[H]{}
	for len(starts) < most {
		f := l.turns.first().flow
		t, again := next[f]
		if !again {
			t = f.first
			changed = append(changed, saved{f, f.turn, f.rank})
		}
		if free -= t.request.Weight; free < 0 && len(starts) > 0 {
			break
		}
		starts = append(starts, upcoming[H]{t, now.Since(f.turn)})
		next[f] = t.later
		switch {
		case t.later == nil:
			f.turn = never
		case f.order.byValue:
			rank++
			f.turn, f.rank = now, rank
		default:
			f.turn = t.later.arrived
		}
		l.turns.fix(byTurn[H]{f})
		if free <= 0 {
			break
		}
	}
	for _, s := range changed {
		s.flow.turn, s.flow.rank = s.turn, s.rank
		l.turns.fix(byTurn[H]{s.flow})
	}
	return starts
}

// upcoming is a request that is asked for.
type upcoming[H any] struct {
	ticket *Ticket[H]
	age    time.Duration // of its turn
}

// never is later than all moments.
const never = clock.Moment(1<<63 - 1)
