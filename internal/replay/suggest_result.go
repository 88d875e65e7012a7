package replay

import "slices"

// Finish returns the result. The smallest limits that leave keys untouched are exact; 0 means that the highest
// limit that was tried is too low, or that there was no request. All ladders show the same limits.
func (s *Suggester) Finish() *Suggestions {
	r := s.result
	r.Requests, r.Clients, r.OwnLimit = s.requests, len(s.keys), s.ownLimit()
	r.NotTried = slices.Clone(r.NotTried)
	s.finishRunning(&r)
	r.Ladders = make([]Ladder, len(s.columns))
	for i, c := range s.columns {
		r.Ladders[i] = newLadderResult(s.names[i], s.ladder.limits, s.denied[i], s.peaks(c))
	}
	keepUseful(r.Ladders, s.requests, len(s.keys), r.OwnLimit)
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

// newLadderResult returns what limits denied, given the requests by limit and the peaks of all keys, from low to high.
func newLadderResult(algorithm string, limits, denied, peaks []int64) Ladder {
	l := Ladder{Algorithm: algorithm}
	for i, limit := range limits {
		l.Limits = append(l.Limits, LimitResult{Limit: limit, Denied: denied[i], ClientsDenied: keysAbove(peaks, limit)})
	}
	untouched := func(touched int) int64 {
		if len(peaks) == 0 || peaks[len(peaks)-1-touched] > limits[len(limits)-1] {
			return 0
		}
		return max(1, peaks[len(peaks)-1-touched])
	}
	l.Untouched99, l.Untouched999, l.Untouched100 = untouched(len(peaks)/100), untouched(len(peaks)/1000), untouched(0)
	return l
}
