package memory

import "github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"

// MinTables is how many tables there are before a new one prunes the others.
const MinTables = 64

// Prune drops the tables whose states have all reset, and returns the names of the policies that
// have others. New tables drop old ones by themselves now and then; Prune does so at once.
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
	m.pruneAt = max(MinTables, 2*len(kept))
}

// dropIfReset drops the table if all its states have reset, and reports whether it did. A table in
// use stays: a request may be about to store something. Each shard is emptied by itself first, so
// that a large table is locked for a short time.
func (t *Table) dropIfReset(now int64) bool {
	for i := range t.Shards {
		s := &t.Shards[i]
		if !s.Mu.TryLock() {
			return false
		}
		ended := s.ClearIfReset(now)
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
		if !t.Shards[i].ClearIfReset(now) {
			return false
		}
	}
	t.dropped = true
	return true
}

// ClearIfReset drops all states if all of them have reset, and reports whether none is left.
func (s *Shard) ClearIfReset(now int64) bool {
	ended := s.hasEnded(now)
	for _, n := range s.Plain {
		if !ended(kernel.State{Numbers: n}) {
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
	s.DropAll()
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
