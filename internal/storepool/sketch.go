package storepool

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Sketch counts the keys that came most often lately, in bounded memory. It runs the Space-Saving algorithm (Metwally,
// Agrawal, El Abbadi 2005) over two periods of time. A new key replaces the kept key with the smallest
// count, and inherits that count as its error. A count is therefore never too small, and at most by its
// error too large. A key with more than 1/[SketchKept] of all additions is never missed. A Sketch is safe for
// concurrent use.
type Sketch struct {
	mu       sync.Mutex
	now      func() time.Time
	began    time.Time // of the current period
	current  spaceSaving
	previous spaceSaving
}

const (
	// SketchKept is the number of keys kept for each period.
	SketchKept = 128

	// SketchPeriod is the length of a period. Counts go back for one to two periods.
	SketchPeriod = 5 * time.Minute
)

// KeyCount is how often a key came: at most Count times, and at least Count-Error times.
type KeyCount struct {
	Key          string
	Count, Error int64
}

// NewSketch returns an empty sketch that reads the time from now.
func NewSketch(now func() time.Time) *Sketch { return &Sketch{now: now, began: now()} }

// Add counts a key once.
func (s *Sketch) Add(key string) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(now)
	s.current.add(key)
}

// Empty reports whether no key came lately.
func (s *Sketch) Empty() bool {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(now)
	return len(s.current.kept)+len(s.previous.kept) == 0
}

// List returns the kept keys, the largest count first, and how far back they were counted.
func (s *Sketch) List() (keys []KeyCount, since time.Duration) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(now)
	since = now.Sub(s.began)
	if s.previous.kept != nil {
		since += SketchPeriod
	}
	keys = s.merged()
	slices.SortFunc(keys, func(a, b KeyCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Error, b.Error), strings.Compare(a.Key, b.Key))
	})
	return keys, since
}

// advance begins a new period after the end of the current one. The lock is held.
func (s *Sketch) advance(now time.Time) {
	switch age := now.Sub(s.began); {
	case age < SketchPeriod:
		return
	case age < 2*SketchPeriod:
		s.previous, s.began = s.current, s.began.Add(SketchPeriod)
	default:
		s.previous, s.began = spaceSaving{}, now
	}
	s.current = spaceSaving{}
}

// merged adds up both periods. A key that one of them did not keep may have come there as often as the
// smallest kept count. The lock is held.
func (s *Sketch) merged() []KeyCount {
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
