package policystats

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
)

// TopKeys counts the keys that came most often lately. It runs the Space-Saving algorithm (Metwally,
// Agrawal, El Abbadi 2005) over two periods of time. A new key replaces the kept key with the smallest
// count, and inherits that count as its error. A count is therefore never too small, and at most by its
// error too large. A key with more than 1/[KeptKeys] of all additions is never missed. A TopKeys is safe for
// concurrent use.
type TopKeys struct {
	mu       sync.Mutex
	now      func() time.Time
	began    time.Time // of the current period
	current  spaceSaving
	previous spaceSaving
}

const (
	// KeptKeys is the number of keys kept for each period.
	KeptKeys = 128

	// TopPeriod is the length of a period. Counts go back for one to two periods.
	TopPeriod = 5 * time.Minute
)

// KeyCount is how often a key came: at most Count times, and at least Count-Error times.
type KeyCount struct {
	Key          string
	Count, Error int64
}

// NewTopKeys returns an empty list that reads the time from now.
func NewTopKeys(now func() time.Time) *TopKeys { return &TopKeys{now: now, began: now()} }

// Add counts a key once.
func (s *TopKeys) Add(key string) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(now)
	s.current.add(key)
}

// Empty reports whether no key came lately.
func (s *TopKeys) Empty() bool {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(now)
	return len(s.current.kept)+len(s.previous.kept) == 0
}

// List returns the kept keys, the largest count first, and how far back they were counted.
func (s *TopKeys) List() (keys []KeyCount, since time.Duration) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(now)
	since = now.Sub(s.began)
	if s.previous.kept != nil {
		since += TopPeriod
	}
	keys = s.merged()
	slices.SortFunc(keys, func(a, b KeyCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Error, b.Error), strings.Compare(a.Key, b.Key))
	})
	return keys, since
}

// advance begins a new period after the end of the current one. The lock is held.
func (s *TopKeys) advance(now time.Time) {
	switch age := now.Sub(s.began); {
	case age < TopPeriod:
		return
	case age < 2*TopPeriod:
		s.previous, s.began = s.current, s.began.Add(TopPeriod)
	default:
		s.previous, s.began = spaceSaving{}, now
	}
	s.current = spaceSaving{}
}

// merged adds up both periods. A key that one of them did not keep may have come there as often as the
// smallest kept count. The lock is held.
func (s *TopKeys) merged() []KeyCount {
	keys := slices.Clone(s.current.kept)
	for i := range keys {
		before, found := s.previous.get(keys[i].Key)
		if !found {
			before.Count, before.Error = s.previous.least(), s.previous.least()
		}
		keys[i].Count += before.Count
		keys[i].Error += before.Error
	}
	for _, c := range s.previous.kept {
		if _, found := s.current.get(c.Key); !found {
			c.Count += s.current.least()
			c.Error += s.current.least()
			keys = append(keys, c)
		}
	}
	return keys
}
