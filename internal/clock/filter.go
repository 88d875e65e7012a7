package clock

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// filterSets and filterWays are how many events are remembered: 65,536, of 16 bytes each.
	filterSets = 4096
	filterWays = 16
)

// Filter passes each event, told apart by its name, at most once in a while. It remembers the last events. Where the
// hashes of too many meet, the event whose time ends first is forgotten, and may pass again too early. The memory is
// allocated with the first event. A Filter is safe for concurrent use; [NewFilter] makes one.
type Filter struct {
	seed  maphash.Seed
	begun sync.Once
	sets  atomic.Pointer[[filterSets]filterSet]
}

// filterSet holds the events whose hashes meet.
type filterSet struct {
	mu     sync.Mutex
	events [filterWays]event
}

// event is the hash of an event's name, and from when it may come again. The zero value is an empty place.
type event struct {
	hash  uint64
	until Moment
}

// NewFilter returns a filter that passes every event once.
func NewFilter() *Filter { return &Filter{seed: maphash.MakeSeed()} }

// Pass reports whether an event may come at an instant, and if so keeps it from coming again for a time. The parts of
// its name but the last have no byte 0. Only the monotonic reading of the instant counts.
func (f *Filter) Pass(now time.Time, quiet time.Duration, name ...string) bool {
	f.begun.Do(func() { f.sets.Store(new([filterSets]filterSet)) })
	sum := f.hash(name)
	return f.sets.Load()[sum%filterSets].pass(sum, MomentOf(now), quiet)
}

// Forget lets an event come again at once, after it has passed.
func (f *Filter) Forget(name ...string) {
	if sum := f.hash(name); f.sets.Load() != nil {
		f.sets.Load()[sum%filterSets].forget(sum)
	}
}

func (f *Filter) hash(name []string) uint64 {
	var hash maphash.Hash
	hash.SetSeed(f.seed)
	for _, part := range name {
		_, _ = hash.WriteString(part)
		_ = hash.WriteByte(0)
	}
	return hash.Sum64()
}

// forget is [Filter.Forget] for a hash.
func (s *filterSet) forget(hash uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.events {
		if s.events[i].hash == hash {
			s.events[i] = event{}
		}
	}
}

// pass is [Filter.Pass] for a hash.
func (s *filterSet) pass(hash uint64, now Moment, quiet time.Duration) bool {
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
