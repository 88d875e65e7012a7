package replay

import (
	"slices"
	"sort"
)

// mostRungs bounds the limits that are shown of a ladder.
const mostRungs = 30

// Finish tells what was found. A smallest limit that leaves so many keys untouched is exact; 0 says that
// not even the highest that was tried does. All ladders show the same limits, the useful ones: from the
// last at which nearly everything is denied to the first at which nothing is, by any algorithm.
func (s *Suggester) Finish() *Suggestions {
	r := s.result
	r.Requests, r.Clients = s.requests, len(s.keys)
	r.Ladders, r.Differences = []Ladder{}, []Difference{}
	shown := s.useful()
	for i := range s.columns {
		peaks := s.peaks(s.columns[i])
		l := Ladder{Algorithm: s.names[i]}
		l.Untouched99 = s.untouched(peaks, len(peaks)/100)
		l.Untouched999 = s.untouched(peaks, len(peaks)/1000)
		l.Untouched100 = s.untouched(peaks, 0)
		for _, place := range shown {
			l.Rungs = append(l.Rungs, s.rung(place, s.denied[i], peaks))
		}
		r.Ladders = append(r.Ladders, l)
	}
	if s.differ != nil {
		for _, place := range shown {
			r.Differences = append(r.Differences, Difference{s.ladder.limits[place], s.differ.tooStrict[place], s.differ.tooGenerous[place]})
		}
	}
	return &r
}

// peaks are those of all keys, from low to high.
func (s *Suggester) peaks(c column) []int64 {
	peaks := make([]int64, len(s.keys))
	for key := range peaks {
		peaks[key] = c.peak(key)
	}
	slices.Sort(peaks)
	return peaks
}

// untouched is the smallest limit that touches at most so many keys.
func (s *Suggester) untouched(peaks []int64, touched int) int64 {
	if len(peaks) == 0 {
		return 1
	}
	limit := max(1, peaks[len(peaks)-1-touched])
	if limit > s.ladder.top() {
		return 0
	}
	return limit
}

func (s *Suggester) rung(i int, denied, peaks []int64) Rung {
	limit := s.ladder.limits[i]
	above := sort.Search(len(peaks), func(j int) bool { return peaks[j] > limit })
	return Rung{Limit: limit, Denied: denied[i], ClientsDenied: len(peaks) - above}
}

// useful chooses limits by their places: evenly where there are too many, and the policy's own among them.
func (s *Suggester) useful() []int {
	first, last := len(s.ladder.limits)-1, 0
	for _, denied := range s.denied {
		from, to := s.span(denied)
		first, last = min(first, from), max(last, to)
	}
	length := last - first + 1
	places, even := make([]int, 0, mostRungs), min(length, mostRungs-1)
	for i := range even {
		places = append(places, first+i*(length-1)/max(1, even-1))
	}
	if own := slices.Index(s.ladder.limits, s.own); own >= 0 {
		places = append(places, own)
	}
	slices.Sort(places)
	return slices.Compact(places)
}

// span is from the last limit at which an algorithm denies 95 % of the requests to the first at which it
// denies none.
func (s *Suggester) span(denied []int64) (first, last int) {
	last = slices.Index(denied, 0)
	if last < 0 {
		last = len(denied) - 1
	}
	for i := range last {
		if denied[i] >= s.requests-s.requests/20 {
			first = i
		}
	}
	return first, last
}
