package storepool

import (
	"sync"
	"time"
)

// sketch counts the keys that came most often lately, in bounded memory. It runs the Space-Saving algorithm (Metwally,
// Agrawal, El Abbadi 2005) over two periods of time. A new key replaces the kept key with the smallest
// count, and inherits that count as its error. A count is therefore never too small, and at most by its
// error too large. A key with more than 1/[sketchKept] of all additions is never missed. A Sketch is safe for
// concurrent use.
type sketch struct {
	mu  sync.Mutex
	now func() time.Time
	of  periods
}

// newSketch returns an empty sketch that reads the time from now.
func newSketch(now func() time.Time) *sketch { return &sketch{now: now, of: periods{began: now()}} }

// Add counts a key once, at the present time, which the caller has read from the clock.
func (s *sketch) Add(key string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of.advance(now)
	s.of.current.add(key, amount{count: 1})
}

// empty reports whether no key came lately.
func (s *sketch) empty() bool {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of.advance(now)
	return s.of.empty()
}

// List returns the kept keys, the largest count first, and how far back they were counted.
func (s *sketch) List() (keys []keyCount, since time.Duration) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of.advance(now)
	return s.of.merged(), s.of.since(now)
}
