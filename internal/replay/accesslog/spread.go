package accesslog

import "slices"

// aSecond is a second, in microseconds.
const aSecond = 1_000_000

// spreader spreads requests whose times are whole seconds: of the k of a second the i-th, in the order of the log, is at
// (i-½)/k of it. Otherwise all of them would come at once. It waits for a second's requests, which stand apart where a log
// is ordered by ends and has starts.
type spreader struct {
	groups []group // by second, the earliest first
	size   int     // entries in all
	bytes  int     // of text
}

// group is the requests of a second.
type group struct {
	second  int64 // when it begins
	used    int64 // microseconds of it that are over, if not all of its requests fitted at once
	entries []*Entry
}

// push adds an entry.
func (s *spreader) push(e *Entry) {
	second := e.Time
	if e.clock.moment == endMoment && e.Ends != 0 {
		second = e.Ends
	}
	at := len(s.groups)
	for at > 0 && s.groups[at-1].second >= second { // nearly always the last one or the one before
		at--
		if len(s.groups)-at > maxSteps {
			at, _ = slices.BinarySearchFunc(s.groups, second, func(g group, second int64) int { return int(min(max(g.second-second, -1), 1)) })
			break
		}
	}
	if at == len(s.groups) || s.groups[at].second != second {
		s.groups = slices.Insert(s.groups, at, group{second: second})
	}
	s.groups[at].entries = append(s.groups[at].entries, e)
	s.size++
	s.bytes += e.bytes
}

// maxSteps is how many seconds are looked at one by one.
const maxSteps = 8

// pop returns the requests of the earliest second, spread over it. If it is the only one, more of them may follow: they get
// half of what is left of it.
func (s *spreader) pop(last bool) []*Entry {
	g := &s.groups[0]
	room := aSecond - g.used
	if len(s.groups) == 1 && !last {
		room /= 2
	}
	k := int64(len(g.entries))
	for i, e := range g.entries {
		offset := g.used + (2*int64(i)+1)*room/(2*k)
		e.spread = offset
		e.Time += offset
		if e.Ends != 0 {
			e.Ends += offset
		}
		s.bytes -= e.bytes
	}
	entries := g.entries
	s.size -= len(entries)
	if len(s.groups) == 1 && !last {
		g.used, g.entries = g.used+room, nil
		return entries
	}
	s.groups[0].entries = nil
	s.groups = s.groups[1:]
	return entries
}
