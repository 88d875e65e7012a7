package main

import "sort"

// entry is units of one stamp. A lease's stamp is its end; the lead is how far that was ahead.
type entry struct{ stamp, lead, units int64 }

// entryLog is the state of sliding_window_log: entries by ascending stamp.
type entryLog struct {
	policy
	entries []entry
	used    int64 // units of all entries
}

// expire removes entries that have left the window, and returns the instant that decides it.
func (s *entryLog) expire(now int64) int64 {
	if n := len(s.entries); n > 0 {
		now = max(now, s.entries[n-1].stamp-s.entries[n-1].lead)
	}
	for len(s.entries) > 0 && s.entries[0].stamp <= now-s.window {
		s.used -= s.entries[0].units
		s.entries = s.entries[1:]
	}
	return now
}

func (s *entryLog) take(now int64, r request) answer {
	at := s.expire(now)
	if r.units > 0 && s.used+r.units > s.limit {
		return answer{wait: s.entries[0].stamp + s.window - now}
	}
	a := answer{duration: r.duration}
	if r.want > 0 {
		a.leased = leasable(s.limit-s.used-r.units, r.want)
	}
	taken := r.units + a.leased
	if taken == 0 {
		return a
	}
	e := entry{stamp: at, units: taken}
	if a.leased > 0 {
		e.stamp += r.duration
	}
	if n := len(s.entries); n > 0 {
		e.stamp = max(e.stamp, s.entries[n-1].stamp)
	}
	e.lead = e.stamp - at // of a plain take behind a lease too
	s.entries = append(s.entries, e)
	s.used += taken
	a.receipt = e.stamp
	return a
}

func (s *entryLog) giveBack(now, units, receipt int64) {
	s.expire(now)
	first := sort.Search(len(s.entries), func(i int) bool { return s.entries[i].stamp >= receipt })
	for i := first; i < len(s.entries) && s.entries[i].stamp == receipt; i++ {
		back := min(units, s.entries[i].units)
		s.entries[i].units -= back
		s.used -= back
		units -= back
	}
}
