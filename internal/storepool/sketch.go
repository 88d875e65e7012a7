package storepool

import (
	"sync"
	"time"
)

// Sketch counts the keys that came most often lately, in bounded memory. It runs the Space-Saving algorithm (Metwally,
// Agrawal, El Abbadi 2005) over two periods of time. A new key replaces the kept key with the smallest
// count, and inherits that count as its error. A count is therefore never too small, and at most by its
// error too large. A key with more than 1/[SketchKept] of all additions is never missed. A Sketch is safe for
// concurrent use.
type Sketch struct {
	mu  sync.Mutex
	now func() time.Time
	of  periods
}

// NewSketch returns an empty sketch that reads the time from now.
func NewSketch(now func() time.Time) *Sketch { return &Sketch{now: now, of: periods{began: now()}} }

// Add counts a key once, at the present time, which the caller has read from the clock.
func (s *Sketch) Add(key string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of.advance(now)
	s.of.current.add(key, amount{count: 1})
}

// Empty reports whether no key came lately.
func (s *Sketch) Empty() bool {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of.advance(now)
	return s.of.empty()
}

// List returns the kept keys, the largest count first, and how far back they were counted.
func (s *Sketch) List() (keys []KeyCount, since time.Duration) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of.advance(now)
	return s.of.merged(), s.of.since(now)
}
