package memory

import (
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
)

// This file drops dead states if no new keys arrive: those make room for themselves (makeRoom), but a site
// that went quiet would keep the states of its last clients.

const (
	// sweptPerSpan is how many states of a [Store] a slow sweep visits, and sweptPerLock how many of them
	// under one lock: well under a millisecond of work, in parts of less than a tenth of that.
	sweptPerSpan = 4096
	sweptPerLock = 512
)

// sweepSome drops some of the dead states, again and again while any states are left.
func (m *Store) sweepSome() {
	m.sweepShards(nil, m.Clock(), sweptPerSpan, (*Shard).sweepSlowly)
	if m.keys.Load() > 0 || m.Spills.Load() > 0 {
		m.Sweeps.Start(clock.SweepSpan)
	}
}

// sweepSlowly does what sweep does, and frees the memory of what is empty then.
func (s *Shard) sweepSlowly(now int64, sample int) (visited int) {
	visited = s.sweep(now, min(sample, sweptPerLock))
	if visited > 0 {
		s.shrink()
	}
	if s.spill != nil && s.spill.all(s.hasEnded(now)) {
		s.dropSpill()
	}
	return visited
}

// shrink frees the memory of maps that are empty: a map keeps the room that it once needed.
func (s *Shard) shrink() {
	if s.Plain != nil && len(s.Plain) == 0 {
		s.Plain, s.Holes = map[string]*kernel.Numbers{}, nil
	}
	if s.logs != nil && len(s.logs) == 0 {
		s.logs = map[string]*kernel.UnitLog{}
	}
	if len(s.Seen) == 0 {
		s.Seen = nil
	}
	if len(s.Bans) == 0 {
		s.Bans = nil
	}
}

// sweepSeen drops those of a few random answers whose quota has reset, and returns how many it
// visited.
func (s *Shard) sweepSeen(now int64, sample int) (visited int) {
	for key, a := range s.Seen {
		if visited++; a.Resets <= now {
			delete(s.Seen, key)
		}
		if visited >= sample {
			break
		}
	}
	return visited
}

// minTables is how many tables there are before a new one prunes the others.
const minTables = 64

// Prune drops the tables whose states have all reset, and returns the names of the policies that
// have others. A new table drops old ones now and then; Prune drops them at once.
func (m *Store) Prune() (inUse map[string]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.prune()
	inUse = map[string]bool{}
	for _, t := range m.Tables {
		inUse[t.slowest.Load().Name()] = true
	}
	return inUse
}

// prune drops the tables whose states have all reset, so that policies which came and went leave
// nothing behind. The next one runs at twice as many tables as are left, so that it costs each table
// little. The lock is held.
func (m *Store) prune() {
	now := m.Clock()
	var kept []*Table
	for _, t := range *m.order.Load() {
		if t.dropIfReset(now) {
			delete(m.Tables, t.slowest.Load().ID)
		} else {
			kept = append(kept, t)
		}
	}
	m.order.Store(&kept)
	m.pruneAt = max(minTables, 2*len(kept))
}

// dropIfReset drops the table if all its states have reset, and reports whether it did. A table in
// use stays: a request may be about to store something. Each shard is emptied alone first, so
// that a large table is locked for a short time.
func (t *Table) dropIfReset(now int64) bool {
	for i := range t.Shards {
		s := &t.Shards[i]
		if !s.Mu.TryLock() {
			return false
		}
		ended := s.clearIfReset(now)
		s.Mu.Unlock()
		if !ended {
			return false
		}
	}
	locked := 0
	defer func() {
		for i := range locked {
			t.Shards[i].Mu.Unlock()
		}
	}()
	for i := range t.Shards {
		if !t.Shards[i].Mu.TryLock() {
			return false
		}
		locked++
		if !t.Shards[i].clearIfReset(now) {
			return false
		}
	}
	t.dropped = true
	return true
}

// clearIfReset drops all states if all of them have reset, and reports whether none is left.
func (s *Shard) clearIfReset(now int64) bool {
	ended := s.hasEnded(now)
	for _, n := range s.Plain {
		if !ended(kernel.State{Numbers: *n}) {
			return false
		}
	}
	for _, log := range s.logs {
		if !ended(kernel.State{Log: log}) {
			return false
		}
	}
	for _, a := range s.Seen {
		if a.Resets > now {
			return false
		}
	}
	for _, b := range s.Bans {
		if b.Expires(s.banWindow()) > now-s.owner.Grace {
			return false
		}
	}
	if len(s.running) > 0 || s.spill != nil && !s.spill.all(ended) {
		return false
	}
	s.dropAll()
	return true
}

// hasEnded returns a function that reports whether a state has reset.
func (s *Shard) hasEnded(now int64) func(held kernel.State) bool {
	p := s.table.slowest.Load()
	tick := now / p.Params.Tick
	last := tick - s.owner.Grace/p.Params.Tick
	return func(held kernel.State) bool {
		return held == (kernel.State{}) || p.Algorithm.Kernel.Expires(held, tick, &p.Params) <= last
	}
}

// all reports whether a condition holds for every cell.
func (o *overflow) all(is func(held kernel.State) bool) bool {
	for _, n := range o.plain {
		if !is(kernel.State{Numbers: n}) {
			return false
		}
	}
	for _, log := range o.logs {
		if !is(kernel.State{Log: log}) {
			return false
		}
	}
	return true
}
