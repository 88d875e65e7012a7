package accesslog

// aSecond is a second, in microseconds.
const aSecond = 1_000_000

// spreader spreads requests whose times are whole seconds: of the k of a second the i-th, in the order of the log, is at
// (i-½)/k of it. Otherwise all of them would come at once. It waits for a second's requests, which stand apart where a log
// is ordered by ends and has starts.
type spreader struct {
	waiting window // by the second that the log has

	second int64 // the last of which not all requests fitted at once; 0 for none
	used   int64 // microseconds of it that are over
}

func (s *spreader) size() int { return s.waiting.size() }

// push adds an entry.
func (s *spreader) push(e *Entry) {
	second := e.Time
	if e.clock.moment == endMoment && e.Ends != 0 {
		second = e.Ends
	}
	s.waiting.push(e, second)
}

// pop returns the requests of the earliest second, spread over it. If it is the only and latest one, more of them may follow:
// these get half of what is left of it. The spreader must not be empty.
func (s *spreader) pop(last bool) (entries []*Entry) {
	w := &s.waiting
	second, used := w.first().place, int64(0)
	for w.size() > 0 && w.first().place == second {
		entries = append(entries, w.pop())
	}
	if second == s.second {
		used = s.used
	}
	room := aSecond - used
	if w.size() == 0 && !last && second >= s.second {
		room /= 2
		s.second, s.used = second, used+room
	}
	k := int64(len(entries))
	for i, e := range entries {
		e.spread = used + (2*int64(i)+1)*room/(2*k)
		e.Time += e.spread
		if e.Ends != 0 {
			e.Ends += e.spread
		}
	}
	return entries
}
