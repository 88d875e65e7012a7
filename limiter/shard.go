package limiter

import (
	"sync"
)

// shard is the part of a table behind one lock. Its methods want the lock held. What is known of a key
// may be in three places, of which get takes what is used most:
//
//   - plain or logs, whichever the policy's algorithm needs: a share that is kept here;
//   - seen: what Redis last said of a share, for when it cannot decide. The next take moves it to the
//     first place;
//   - spill: shares without a place of their own, a fixed number of places that keys have in common.
type shard struct {
	mu    sync.Mutex
	owner *Memory
	table *table
	order int // locks are taken in this order, which is the same for all
	plain map[string]numbers
	logs  map[string]*unitLog
	seen  map[string]lastSeen // what Redis last said of shares; nil before the first
	spill *overflow           // shares that there was no room for; nil while there was
}

// get returns a key's share as it counts at an instant in microseconds: the one that is kept, or
// what else is known, whichever is used more.
func (s *shard) get(p *Policy, key string, now int64) state {
	kept, found := s.kept(key)
	if len(s.seen) > 0 {
		if a, known := s.seen[key]; known && a.resets > now {
			kept = p.fuller(kept, a.restore(p, now), now)
		}
	}
	if !found && s.spill != nil {
		kept = p.fuller(kept, s.spill.get(key), now)
	}
	return kept
}

// kept returns the share that is kept for a key alone.
func (s *shard) kept(key string) (kept state, found bool) {
	if s.logs != nil {
		log, found := s.logs[key]
		return state{log: log}, found
	}
	n, found := s.plain[key]
	return state{numbers: n}, found
}

func (s *shard) put(key string, value state) {
	if s.logs != nil {
		s.logs[key] = value.log
		return
	}
	s.plain[key] = value.numbers
}

// drop forgets all that is known of a key and tells whether there was anything. Others may share
// its place in the overflow and are forgiven with it.
func (s *shard) drop(key string) (found bool) {
	if _, found = s.kept(key); found {
		delete(s.logs, key)
		delete(s.plain, key)
		s.owner.keys.Add(-1)
	}
	if s.forget(key) {
		found = true
	}
	return s.spill.drop(key) || found
}

// dropAll forgets all that is known and tells how many shares that were.
func (s *shard) dropAll() int64 {
	found := int64(len(s.plain) + len(s.logs) + len(s.seen))
	clear(s.plain)
	clear(s.logs)
	clear(s.seen)
	s.spill = nil
	s.owner.keys.Add(-found)
	return found
}

// take charges a passing check and stores its share.
func (s *shard) take(c *Check, old state, v verdict, now int64) {
	s.store(c, old, c.Policy.algorithm.kernel.take(old, &c.Policy.params, v), now)
}

// charge charges a check without asking whether there is room.
func (s *shard) charge(c *Check, now int64) {
	t, old := &c.Policy.params, s.get(c.Policy, c.Key, now)
	s.store(c, old, c.Policy.algorithm.kernel.charge(old, now/t.tick, t, c.Weight), now)
}

// store keeps the new share of a check's key, where there is room in a place of its own.
func (s *shard) store(c *Check, old, value state, now int64) {
	if old == (state{}) || len(s.seen) > 0 || s.spill != nil {
		s.forget(c.Key) // what was seen is part of the value
		if _, found := s.kept(c.Key); !found && !s.makeRoom(now) {
			s.spillOver(c.Key, value)
			return
		}
	}
	s.put(c.Key, value)
}

// refund undoes a take, wherever its share is now.
func (s *shard) refund(c *Check, now int64) {
	t, kernel := &c.Policy.params, c.Policy.algorithm.kernel
	back := func(held state) state { return kernel.refund(held, now/t.tick, t, c.Weight, c.receipt) }
	if held, found := s.kept(c.Key); found {
		s.put(c.Key, back(held))
	} else if s.spill != nil {
		s.spill.put(c.Key, back(s.spill.get(c.Key)))
	}
}

const (
	// sweepSample is how many shares each new one looks at. Maps are walked from a random place, so
	// that the part of the shares that is dead settles below 1/sweepSample.
	sweepSample = 4

	// sweepFull is how many are looked at where there is no room, here and elsewhere, in at most
	// sweepShards shards.
	sweepFull   = 32
	sweepShards = 128

	// sweepEvery bounds what a flood of keys costs: after one that looked further for nothing so many
	// find no room without a look.
	sweepEvery = 8
)

// makeRoom counts one more share, if there is room for it.
func (s *shard) makeRoom(now int64) bool {
	s.sweep(now, sweepSample)
	if s.owner.admit() {
		return true
	}
	if s.owner.turnAway.Load() > 0 {
		s.owner.turnAway.Add(-1)
		return false
	}
	s.sweep(now, sweepFull)
	s.owner.sweepElsewhere(s, now)
	if s.owner.admit() {
		return true
	}
	s.owner.turnAway.Store(sweepEvery)
	return false
}

// sweep forgets those of a few random shares that are as good as new, as Redis's TTL does, and tells
// how many it has looked at.
func (s *shard) sweep(now int64, sample int) (looked int) {
	p := s.table.slowest.Load()
	t := &p.params
	tick, kernel := now/t.tick, p.algorithm.kernel
	ended := tick - s.owner.grace/t.tick
	before := len(s.plain) + len(s.logs) + len(s.seen)
	for key, value := range s.plain {
		if looked++; kernel.expires(state{numbers: value}, tick, t) <= ended {
			delete(s.plain, key)
		}
		if looked >= sample {
			break
		}
	}
	for key, value := range s.logs {
		if looked++; kernel.expires(state{log: value}, tick, t) <= ended {
			delete(s.logs, key)
		}
		if looked >= sample {
			break
		}
	}
	looked += s.sweepSeen(now, sample)
	if swept := before - len(s.plain) - len(s.logs) - len(s.seen); swept > 0 {
		s.owner.keys.Add(int64(-swept))
	}
	return looked
}
