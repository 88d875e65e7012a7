package redisratelimit

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
)

// topKeys finds the keys of one policy that were denied most lately, in bounded memory: the
// Space-Saving algorithm (Metwally, Agrawal, El Abbadi 2005) over two halves of the time. A key that
// is not among those kept takes the place of the one denied least, and inherits its count as the error
// of its own. So a count is never too small, at most by its error too large, and a key with more than
// 1/topKept of all denials is never missed.
type topKeys struct {
	mu    sync.Mutex
	now   func() time.Time
	began time.Time // the half at hand
	half  spaceSaving
	past  spaceSaving // the half before
}

const (
	// topKept is how many keys are kept for each half.
	topKept = 128

	// topHalf is the length of a half: counts go back for one to two of them.
	topHalf = 5 * time.Minute
)

func newTopKeys(now func() time.Time) *topKeys { return &topKeys{now: now, began: now()} }

// denied counts a denial of a key.
func (t *topKeys) denied(key string) {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn(now)
	t.half.add(key)
}

// turn begins a new half where the one at hand is over.
func (t *topKeys) turn(now time.Time) {
	switch age := now.Sub(t.began); {
	case age < topHalf:
		return
	case age < 2*topHalf:
		t.past, t.began = t.half, t.began.Add(topHalf)
	default:
		t.past, t.began = spaceSaving{}, now
	}
	t.half = spaceSaving{}
}

// empty reports whether no key was denied lately.
func (t *topKeys) empty() bool {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn(now)
	return len(t.half.kept)+len(t.past.kept) == 0
}

// list returns the keys denied most, the first first, and how far back they were counted.
func (t *topKeys) list() (keys []counted, since time.Duration) {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn(now)
	since = now.Sub(t.began)
	if t.past.kept != nil {
		since += topHalf
	}
	keys = slices.Clone(t.half.kept)
	for i := range keys {
		// A key that the half before did not keep may have been denied there as often as the least kept.
		before, found := t.past.get(keys[i].key)
		keys[i].denied += before.denied
		keys[i].error += before.error
		if !found {
			keys[i].denied += t.past.least()
			keys[i].error += t.past.least()
		}
	}
	for _, c := range t.past.kept {
		if _, found := t.half.get(c.key); !found {
			c.denied += t.half.least()
			c.error += t.half.least()
			keys = append(keys, c)
		}
	}
	slices.SortFunc(keys, func(a, b counted) int {
		return cmp.Or(cmp.Compare(b.denied, a.denied), cmp.Compare(a.error, b.error), strings.Compare(a.key, b.key))
	})
	return keys, since
}

// counted is a key that was denied at most so often, and at least so often less the error.
type counted struct {
	key           string
	denied, error int64
}

// spaceSaving counts the keys that come most often. The zero value is empty.
type spaceSaving struct {
	kept   []counted
	places map[string]int // in kept
	floor  int64          // no kept key was denied less
	cursor int            // where keys that were denied no more are looked for
}

// add counts a key.
func (s *spaceSaving) add(key string) {
	if at, found := s.places[key]; found {
		s.kept[at].denied++
		return
	}
	key = strings.Clone(key) // the caller's may be part of something larger
	if s.places == nil {
		s.places = make(map[string]int, topKept)
	}
	if len(s.kept) < topKept {
		s.places[key] = len(s.kept)
		s.kept = append(s.kept, counted{key: key, denied: 1})
		return
	}
	at := s.lowest()
	least := s.kept[at].denied
	delete(s.places, s.kept[at].key)
	s.kept[at] = counted{key: key, denied: least + 1, error: least}
	s.places[key] = at
}

// lowest is the place of a key that was denied least. Counts only grow, so that it is found near where
// the last one was, and all are looked at once for each time that the least count grows.
func (s *spaceSaving) lowest() int {
	for range s.kept {
		if s.kept[s.cursor].denied <= s.floor {
			return s.cursor
		}
		s.cursor = (s.cursor + 1) % len(s.kept)
	}
	for i := range s.kept {
		if s.kept[i].denied < s.kept[s.cursor].denied {
			s.cursor = i
		}
	}
	s.floor = s.kept[s.cursor].denied
	return s.cursor
}

// least is how often a key that is not kept may have come.
func (s *spaceSaving) least() int64 {
	if len(s.kept) < topKept {
		return 0
	}
	return s.kept[s.lowest()].denied
}

func (s *spaceSaving) get(key string) (counted, bool) {
	at, found := s.places[key]
	if !found {
		return counted{}, false
	}
	return s.kept[at], true
}
