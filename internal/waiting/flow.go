package waiting

import "github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"

// flow is the waiting requests of one value, or all requests that wait in the order of their arrival. A flow in a line is
// never empty.
type flow[H any] struct {
	order Order
	line  *line[H]
	turn  clock.Moment // when the flow's turn began: the flow with the oldest turn has the next place
	rank  uint64       // of flows with one turn; a flow of which a request starts goes behind the others

	first, last *Ticket[H]
	length      int

	inTurns, inLengths int // its places in the line's heaps
}

// append puts a request at the end.
func (f *flow[H]) append(t *Ticket[H]) {
	t.flow, t.earlier = f, f.last
	if f.last == nil {
		f.first = t
	} else {
		f.last.later = t
	}
	f.last = t
	f.length++
}

// remove takes a request out.
func (f *flow[H]) remove(t *Ticket[H]) {
	if t.earlier == nil {
		f.first = t.later
	} else {
		t.earlier.later = t.later
	}
	if t.later == nil {
		f.last = t.earlier
	} else {
		t.later.earlier = t.earlier
	}
	t.flow, t.earlier, t.later = nil, nil, nil
	f.length--
}

// byTurn ranks flows by their turns, the oldest first.
type byTurn[H any] struct{ *flow[H] }

func (f byTurn[H]) place() *int { return &f.inTurns }
func (f byTurn[H]) before(other byTurn[H]) bool {
	return f.turn < other.turn || f.turn == other.turn && f.rank < other.rank
}

// byLength ranks flows by how many requests wait, the longest first.
type byLength[H any] struct{ *flow[H] }

func (f byLength[H]) place() *int                   { return &f.inLengths }
func (f byLength[H]) before(other byLength[H]) bool { return f.length > other.length }
