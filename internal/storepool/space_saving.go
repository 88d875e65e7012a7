package storepool

import "strings"

// spaceSaving counts the keys that come most often. The zero value is empty.
type spaceSaving struct {
	kept    []KeyCount
	indexes map[string]int // in kept
	floor   int64          // a lower bound of the kept counts
	cursor  int            // the place where the search for the smallest count continues
}

// add counts a key.
func (s *spaceSaving) add(key string) {
	if at, found := s.indexes[key]; found {
		s.kept[at].Count++
		return
	}
	key = strings.Clone(key) // the caller's key may be part of a larger string
	if s.indexes == nil {
		s.indexes = make(map[string]int, SketchKept)
	}
	if len(s.kept) < SketchKept {
		s.indexes[key] = len(s.kept)
		s.kept = append(s.kept, KeyCount{Key: key, Count: 1})
		return
	}
	at := s.lowest()
	least := s.kept[at].Count
	delete(s.indexes, s.kept[at].Key)
	s.kept[at] = KeyCount{Key: key, Count: least + 1, Error: least}
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

// least returns how often a key that is not kept may have come.
func (s *spaceSaving) least() int64 {
	if len(s.kept) < SketchKept {
		return 0
	}
	return s.kept[s.lowest()].Count
}

func (s *spaceSaving) get(key string) (KeyCount, bool) {
	at, found := s.indexes[key]
	if !found {
		return KeyCount{}, false
	}
	return s.kept[at], true
}
