package clock

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// sets and ways are how many events are remembered: 65,536, of 16 bytes each.
	sets = 4096
	ways = 16
)

// EventFilter remembers which events there were lately, so that each comes once in a while. Where too many meet, the
// one that ends first gives its place to another: it may come again too early. The memory is allocated with the first
// event. It is safe for concurrent use; [NewEventFilter] makes one.
type EventFilter struct {
	seed  maphash.Seed
	begun sync.Once
	sets  atomic.Pointer[[sets]set]
}

// set holds the events whose hashes meet.
type set struct {
	mu     sync.Mutex
	events [ways]event
}

// event is the hash of an event's name, and from when it may come again. The zero value is an empty place.
type event struct {
	hash  uint64
	until Moment
}

// NewEventFilter returns an empty filter.
func NewEventFilter() *EventFilter { return &EventFilter{seed: maphash.MakeSeed()} }

// Pass reports whether an event may come at an instant, and if so keeps it from coming again for a time. The parts of
// its name but the last have no byte 0. Only the monotonic reading of the instant counts.
func (f *EventFilter) Pass(now time.Time, quiet time.Duration, name ...string) bool {
	f.begun.Do(func() { f.sets.Store(new([sets]set)) })
	sum := f.hash(name)
	return f.sets.Load()[sum%sets].pass(sum, MomentOf(now), quiet)
}

// Forget lets an event come again at once, after it has passed.
func (f *EventFilter) Forget(name ...string) {
	if sum := f.hash(name); f.sets.Load() != nil {
		f.sets.Load()[sum%sets].forget(sum)
	}
}

func (f *EventFilter) hash(name []string) uint64 {
	var hash maphash.Hash
	hash.SetSeed(f.seed)
	for _, part := range name {
		_, _ = hash.WriteString(part)
		_ = hash.WriteByte(0)
	}
	return hash.Sum64()
}

// forget is [EventFilter.Forget] for a hash.
func (s *set) forget(hash uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.events {
		if s.events[i].hash == hash {
			s.events[i] = event{}
		}
	}
}

// pass is [EventFilter.Pass] for a hash.
func (s *set) pass(hash uint64, now Moment, quiet time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := &s.events[0]
	for i := range s.events {
		e := &s.events[i]
		if e.hash == hash && e.until > now {
			return false
		}
		if e.until < free.until {
			free = e
		}
	}
	*free = event{hash: hash, until: now.Add(quiet)}
	return true
}
