// Package thresholds remembers which marks of which quotas have had an event, so that each has one per
// window.
package thresholds

import (
	"hash/maphash"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// sets and ways are how many marks are remembered: 65,536, of 16 bytes each.
	sets = 4096
	ways = 16
)

// start is the origin of all instants.
var start = time.Now()

// Memory remembers marks that have had an event. A mark that is remembered longer than others gives its
// place to one that needs it: it may have its next event too early. The memory is allocated with the first
// mark. It is safe for concurrent use; [NewMemory] makes one.
type Memory struct {
	seed  maphash.Seed
	begun sync.Once
	sets  atomic.Pointer[[sets]set]
}

// set holds the marks whose hashes meet.
type set struct {
	mu    sync.Mutex
	marks [ways]mark
}

// mark is the hash of a mark of a quota, and when its next event may come: nanoseconds after start. The zero
// value is an empty place.
type mark struct {
	hash  uint64
	until int64
}

// NewMemory returns an empty memory.
func NewMemory() *Memory { return &Memory{seed: maphash.MakeSeed()} }

// Pass reports whether a mark of a quota may have an event at an instant, and if so keeps it from having
// another for a time. The quota is that of a key in the states of a policy, by their ID. Only the monotonic
// reading of the instant counts.
func (m *Memory) Pass(policyID, key string, percent float64, now time.Time, quiet time.Duration) bool {
	m.begun.Do(func() { m.sets.Store(new([sets]set)) })
	sum := m.hash(policyID, key, percent)
	return m.sets.Load()[sum%sets].pass(sum, int64(now.Sub(start)), quiet)
}

// Forget lets a mark that has passed have its event later.
func (m *Memory) Forget(policyID, key string, percent float64) {
	if sum := m.hash(policyID, key, percent); m.sets.Load() != nil {
		m.sets.Load()[sum%sets].forget(sum)
	}
}

func (m *Memory) hash(policyID, key string, percent float64) uint64 {
	var hash maphash.Hash
	hash.SetSeed(m.seed)
	_, _ = hash.WriteString(policyID)
	_ = hash.WriteByte(0)
	_, _ = hash.WriteString(strconv.FormatFloat(percent, 'f', -1, 64))
	_ = hash.WriteByte(0)
	_, _ = hash.WriteString(key)
	return hash.Sum64()
}

// forget is [Memory.Forget] for a hash.
func (s *set) forget(hash uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.marks {
		if s.marks[i].hash == hash {
			s.marks[i] = mark{}
		}
	}
}

// pass is [Memory.Pass] for a hash.
func (s *set) pass(hash uint64, now int64, quiet time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := &s.marks[0]
	for i := range s.marks {
		m := &s.marks[i]
		if m.hash == hash && m.until > now {
			return false
		}
		if m.until < free.until {
			free = m
		}
	}
	*free = mark{hash: hash, until: now + int64(quiet)}
	return true
}
