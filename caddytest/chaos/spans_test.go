package chaos

import (
	"slices"
	"sort"
	"time"
)

// passing is an admitted request: it was decided between two instants, on the clock that Redis has too.
type passing struct{ began, ended time.Time }

// rule is how much may pass of a quota in a span of time. A bucket lets its burst through at once, a window its limit.
type rule struct {
	algorithm    string
	limit, burst int
	window       time.Duration
}

// worst returns the most units that have certainly passed in a span, and how many may. Where spans have several
// bounds it is the one with the least room left.
func (r rule) worst(passed []passing) (most, bound int) {
	slices.SortFunc(passed, func(a, b passing) int { return a.began.Compare(b.began) })
	most, bound = 0, r.limit
	keep := func(units, limit int) {
		if units-limit > most-bound {
			most, bound = units, limit
		}
	}
	switch r.algorithm {
	case "fixed_window", "sliding_window_counter":
		windows := map[int64]int{}
		for _, p := range passed {
			if w := p.began.UnixMicro() / r.window.Microseconds(); w == p.ended.UnixMicro()/r.window.Microseconds() {
				windows[w]++
			}
		}
		for w, units := range windows {
			keep(units, r.limit)
			if r.algorithm == "sliding_window_counter" {
				r.estimates(passed, w, windows[w-1], keep)
			}
		}
	case "sliding_window_log":
		for i := range passed {
			keep(within(passed, i, passed[i].began.Add(r.window)), r.limit)
		}
	default:
		for i := 0; i < len(passed); i += 8 {
			for span := r.window / 64; span <= 2*r.window; span += r.window / 64 {
				drained := int(time.Duration(r.limit)*span/r.window) + 1
				keep(within(passed, i, passed[i].began.Add(span)), r.burst+drained)
			}
		}
	}
	return most, bound
}

// within returns how many requests from the i-th on began and ended before an instant.
func within(passed []passing, i int, before time.Time) (units int) {
	last := i + sort.Search(len(passed)-i, func(j int) bool { return !passed[i+j].began.Before(before) })
	for _, p := range passed[i:last] {
		if p.ended.Before(before) {
			units++
		}
	}
	return units
}

// estimates compares the units of a window, request by request, with the estimate of the window before.
func (r rule) estimates(passed []passing, w int64, previous int, keep func(units, limit int)) {
	window := r.window.Microseconds()
	var ends []int64
	for _, p := range passed {
		if p.began.UnixMicro()/window == w && p.ended.UnixMicro()/window == w {
			ends = append(ends, p.ended.UnixMicro())
		}
	}
	slices.Sort(ends)
	for _, p := range passed {
		began, ended := p.began.UnixMicro(), p.ended.UnixMicro()
		if began/window != w || ended/window != w {
			continue
		}
		before := sort.Search(len(ends), func(i int) bool { return ends[i] > began })
		left := (w+1)*window - ended
		keep(before+1+int(int64(previous)*left/window), r.limit)
	}
}
