package replay

import (
	"slices"
	"sort"
)

// Finish returns the result. The smallest limits that leave keys untouched are exact; 0 means that the highest
// limit that was tried is too low, or that there was no request. All ladders show the same limits.
func (s *Suggester) Finish() *Suggestions {
	r := s.result
	r.Requests, r.Clients, r.OwnLimit = s.requests, len(s.keys), s.ownLimit()
	r.NotTried = slices.Clone(r.NotTried)
	r.Ladders = []Ladder{}
	s.finishRunning(&r)
	ladders, fractions := make([][]LimitResult, len(s.columns)), []fractions(nil)
	for i, c := range s.columns {
		peaks := s.peaks(c)
		for place := range s.ladder.limits {
			ladders[i] = append(ladders[i], s.limitResult(place, s.denied[i], peaks))
		}
		fractions = append(fractions, fractionsOf(ladders[i], s.requests, len(s.keys))...)
		r.Ladders = append(r.Ladders, Ladder{
			Algorithm: s.names[i], Limits: []LimitResult{},
			Untouched99:  untouchedLimit(peaks, len(peaks)/100, s.ladder.top()),
			Untouched999: untouchedLimit(peaks, len(peaks)/1000, s.ladder.top()),
			Untouched100: untouchedLimit(peaks, 0, s.ladder.top()),
		})
	}
	if s.requests == 0 || len(s.columns) == 0 {
		return &r
	}
	for _, place := range usefulPlaces(fractions, slices.Index(s.ladder.limits, r.OwnLimit)) {
		for i := range r.Ladders {
			r.Ladders[i].Limits = append(r.Ladders[i].Limits, ladders[i][place])
		}
	}
	return &r
}

// peaks returns the peaks of all keys, from low to high.
func (s *Suggester) peaks(c column) []int64 {
	peaks := make([]int64, len(s.keys))
	for key := range peaks {
		peaks[key] = c.peak(key)
	}
	slices.Sort(peaks)
	return peaks
}

// untouchedLimit returns the smallest limit that touches at most so many keys, given their peaks from low to high;
// 0 if it is above the highest.
func untouchedLimit(peaks []int64, touched int, top int64) int64 {
	if len(peaks) == 0 {
		return 0
	}
	limit := max(1, peaks[len(peaks)-1-touched])
	if limit > top {
		return 0
	}
	return limit
}

func (s *Suggester) limitResult(i int, denied, peaks []int64) LimitResult {
	limit := s.ladder.limits[i]
	return LimitResult{Limit: limit, Denied: denied[i], ClientsDenied: keysAbove(peaks, limit)}
}

// keysAbove returns how many of the peaks, from low to high, lie above a limit.
func keysAbove(peaks []int64, limit int64) int {
	return len(peaks) - sort.Search(len(peaks), func(j int) bool { return peaks[j] > limit })
}
