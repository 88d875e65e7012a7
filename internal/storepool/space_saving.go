package storepool

import "strings"

// keyCount is what came of a key: at most Count, and at least Count-Error. Where only a sample was counted, these bound
// what the sample says, and Variance is that of the sample.
type keyCount struct {
	Key          string
	Count, Error int64
	Variance     float64
}

// mostCount is the largest count, 2^53, behind which sums stay. JSON readers know whole numbers up to it.
const mostCount = 1 << 53

// amount is what is added to the count of a key.
type amount struct {
	count    int64
	variance float64 // of a sample that stands for others
}

// spaceSaving counts the keys that have most of all that is added. The zero value is empty.
type spaceSaving struct {
	kept    []keyCount
	indexes map[string]int // in kept
	floor   int64          // a lower bound of the kept counts
	cursor  int            // the place where the search for the smallest count continues

	// spread is the largest variance of what was added, for each 1 of its count. It bounds the variance of keys that are not
	// kept any more.
	spread float64
}

// add adds to the count of a key.
func (s *spaceSaving) add(key string, a amount) {
	s.spread = max(s.spread, a.variance/float64(a.count))
	if at, found := s.indexes[key]; found {
		k := &s.kept[at]
		k.Count, k.Variance = min(k.Count+a.count, mostCount), k.Variance+a.variance
		return
	}
	key = strings.Clone(key) // the caller's key may be part of a larger string
	if s.indexes == nil {
		s.indexes = map[string]int{}
	}
	if len(s.kept) < sketchKept {
		s.indexes[key] = len(s.kept)
		s.kept = append(s.kept, keyCount{Key: key, Count: min(a.count, mostCount), Variance: a.variance})
		return
	}
	at := s.lowest()
	before := s.kept[at].Key
	k := s.missing()
	delete(s.indexes, before)
	s.kept[at] = keyCount{Key: key, Count: min(k.Count+a.count, mostCount), Error: k.Error, Variance: k.Variance + a.variance}
	s.indexes[key] = at
}

// lowest returns the place of a key with the smallest count. Counts only grow, so the search continues
// where the last one ended, and passes over all keys once each time the smallest count grows.
func (s *spaceSaving) lowest() int {
	for range s.kept {
		if s.kept[s.cursor].Count <= s.floor {
			return s.cursor
		}
		s.cursor = (s.cursor + 1) % len(s.kept)
	}
	for i := range s.kept {
		if s.kept[i].Count < s.kept[s.cursor].Count {
			s.cursor = i
		}
	}
	s.floor = s.kept[s.cursor].Count
	return s.cursor
}

// missing returns the most that may have come of a key that is not kept.
func (s *spaceSaving) missing() (k keyCount) {
	if len(s.kept) == sketchKept {
		k.Count = s.kept[s.lowest()].Count
		k.Error, k.Variance = k.Count, float64(k.Count)*s.spread
	}
	return k
}

// get returns what came of a key.
func (s *spaceSaving) get(key string) keyCount {
	at, found := s.indexes[key]
	if !found {
		return s.missing()
	}
	return s.kept[at]
}

// plus adds what came of the same key elsewhere.
func (k keyCount) plus(other keyCount) keyCount {
	k.Count, k.Error = min(k.Count+other.Count, mostCount), min(k.Error+other.Error, mostCount)
	k.Variance += other.Variance
	return k
}
