package crawlers

import (
	"container/list"
	"net/netip"
)

// queue is the addresses that are to be looked up. Each network has a line, and lines take turns, so that a flood from a few
// networks delays no other one. Networks that have had a verified address are served before all others.
type queue struct {
	lines   map[lineKey]*line
	rings   [ranks]list.List // of the lines with addresses, by whose turn is next
	lengths [ranks]int       // in addresses
}

// rank says which lines are served first.
type rank uint8

const (
	known    rank = iota // networks that have had a verified address
	stranger             // all others
	ranks
)

type lineKey struct {
	network netip.Prefix
	rank    rank
}

// line is the addresses of a network. It is in the ring of its rank while it has addresses.
type line struct {
	lineKey
	addresses []netip.Addr
	running   int // look-ups under way
	place     *list.Element
}

const (
	mostQueued        = 1024
	mostQueuedOfLine  = 256
	mostRunningOfLine = 4

	// linesLookedAt is of how many lines the longest goes when the queue is full: a look at thousands would hold the lock too long.
	linesLookedAt = 8
)

func newQueue() *queue { return &queue{lines: map[lineKey]*line{}} }

// Len returns how many addresses wait.
func (q *queue) Len() int { return q.lengths[known] + q.lengths[stranger] }

// ahead returns how many addresses wait that may be served before a new one of a rank.
func (q *queue) ahead(r rank) int {
	if r == known {
		return q.lengths[known]
	}
	return q.Len()
}

// push adds an address. A full queue lets another one go, which is valid then, or refuses the new one.
func (q *queue) push(a netip.Addr, key lineKey) (dropped netip.Addr, ok bool) {
	l := q.lines[key]
	if l == nil {
		l = &line{lineKey: key}
		q.lines[key] = l
	}
	defer q.forgetIdle(l)
	if len(l.addresses) >= mostQueuedOfLine {
		return dropped, false
	}
	if q.Len() >= mostQueued {
		if dropped = q.drop(l); !dropped.IsValid() {
			return dropped, false
		}
	}
	l.addresses = append(l.addresses, a)
	q.lengths[key.rank]++
	if l.place == nil {
		l.place = q.rings[key.rank].PushBack(l)
	}
	return dropped, true
}

// drop makes room for an address of a line: the newest of the longest of some lines goes, or, where all are short, any. So a flood
// from many networks delays others, and shuts none out: were it always the oldest that goes, a crawler that asks again in the
// rhythm of a flood might never have its turn. The zero value: none goes.
func (q *queue) drop(newcomer *line) netip.Addr {
	longest := q.longestOfSome()
	if longest != nil && len(longest.addresses) > len(newcomer.addresses)+1 {
		return q.remove(longest, len(longest.addresses)-1)
	}
	if newcomer.rank == stranger && len(newcomer.addresses) > 0 {
		return netip.Addr{} // the newcomer's line is a long one
	}
	for _, l := range q.lines { // from a random one on
		if l.rank == stranger && len(l.addresses) > 0 {
			return q.remove(l, 0)
		}
	}
	return netip.Addr{}
}

// longestOfSome returns the longest of some lines of strangers, in no order; nil: there is none among them.
func (q *queue) longestOfSome() (longest *line) {
	looked := 0
	for key, l := range q.lines {
		if key.rank == stranger && (longest == nil || len(l.addresses) > len(longest.addresses)) {
			longest = l
		}
		if looked++; looked >= linesLookedAt {
			break
		}
	}
	return longest
}

// remove takes an address out of its line.
func (q *queue) remove(l *line, at int) netip.Addr {
	a := l.addresses[at]
	if at == 0 {
		l.addresses = l.addresses[1:] // which append copies without it
	} else {
		l.addresses = l.addresses[:at]
	}
	q.lengths[l.rank]--
	q.forgetIdle(l)
	return a
}

// next returns the line whose turn is next; nil: none may be served now. At most 16 lines are full, by the bound of all look-ups.
func (q *queue) next() *line {
	for i := range q.rings {
		for e := q.rings[i].Front(); e != nil; e = e.Next() {
			if l, _ := e.Value.(*line); l.running < mostRunningOfLine {
				return l
			}
		}
	}
	return nil
}

// begin takes the first address of a line, whose look-up begins.
func (q *queue) begin(l *line) netip.Addr {
	q.rings[l.rank].MoveToBack(l.place)
	l.running++
	return q.remove(l, 0)
}

// end ends a look-up of a line.
func (q *queue) end(l *line) {
	l.running--
	q.forgetIdle(l)
}

// forgetIdle takes a line without addresses out of its ring, and forgets it unless a look-up is under way.
func (q *queue) forgetIdle(l *line) {
	if len(l.addresses) > 0 {
		return
	}
	if l.place != nil {
		q.rings[l.rank].Remove(l.place)
		l.place = nil
	}
	if l.running == 0 {
		delete(q.lines, l.lineKey)
	}
}
