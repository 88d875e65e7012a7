package limiter

import "slices"

// This file finds the tables of a Memory, and drops those whose shares have all ended, so that policies
// that came and went leave nothing behind.

// minTables is how many tables there are before one is dropped for the sake of a new one.
const minTables = 64

// tableOf returns the shares of a policy. The policy remembers where they are.
func (m *Memory) tableOf(p *Policy) *table {
	if t := p.table.Load(); t != nil && t.owner == m {
		return t
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, found := m.tables[p.id]; !found && len(m.tables) >= m.pruneAt {
		m.prune()
	}
	return m.findTable(p)
}

// findTable returns the table of a policy, and makes it where there is none. It drops no other. The lock
// is held.
func (m *Memory) findTable(p *Policy) *table {
	t, found := m.tables[p.id]
	if !found {
		t = newTable(m, m.made, p)
		m.made++
		m.tables[p.id] = t
		order := append(slices.Clone(*m.order.Load()), t)
		m.order.Store(&order)
	}
	t.admit(p)
	return t
}

// lock returns the shard of a share, locked.
func (m *Memory) lock(p *Policy, key string) *shard {
	s := m.tableOf(p).shardOf(key)
	s.mu.Lock()
	if !s.table.dropped {
		return s
	}
	s.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	s = m.findTable(p).shardOf(key)
	s.mu.Lock()
	return s
}

// lockEach appends the shards of the checks, in their order, and locks them. A table that is found may be
// dropped before it is locked, also for the sake of a later one of the same request. The second time no
// table is dropped meanwhile.
func (m *Memory) lockEach(shards []*shard, checks []Check) (locked []*shard, unlock func()) {
	for i := range checks {
		shards = append(shards, m.tableOf(checks[i].Policy).shardOf(checks[i].Key))
	}
	unlock = lockAll(shards)
	if !slices.ContainsFunc(shards, func(s *shard) bool { return s.table.dropped }) {
		return shards, unlock
	}
	unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range checks {
		shards[i] = m.findTable(checks[i].Policy).shardOf(checks[i].Key)
	}
	return shards, lockAll(shards)
}

// Prune drops the tables of policies whose shares have all ended, and returns the names of the policies
// that have others. New tables drop old ones by themselves now and then; Prune does so at once.
func (m *Memory) Prune() (living map[string]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.prune()
	living = map[string]bool{}
	for _, t := range m.tables {
		living[t.slowest.Load().Name()] = true
	}
	return living
}

// prune drops the tables whose shares have all ended. There may be twice as many as are left before
// that is looked for again, so that it costs each table little. The lock is held.
func (m *Memory) prune() {
	now := m.clock()
	var kept []*table
	for _, t := range *m.order.Load() {
		if t.end(now) {
			delete(m.tables, t.slowest.Load().id)
		} else {
			kept = append(kept, t)
		}
	}
	m.order.Store(&kept)
	m.pruneAt = max(minTables, 2*len(kept))
}

// end drops the table if all its shares have ended, and reports whether it did. A table in use stays: a
// request may be about to store something. Each shard is emptied by itself first, so that a large table
// holds up nobody for long.
func (t *table) end(now int64) bool {
	for i := range t.shards {
		s := &t.shards[i]
		if !s.mu.TryLock() {
			return false
		}
		ended := s.empty(now)
		s.mu.Unlock()
		if !ended {
			return false
		}
	}
	locked := 0
	defer func() {
		for i := range locked {
			t.shards[i].mu.Unlock()
		}
	}()
	for i := range t.shards {
		if !t.shards[i].mu.TryLock() {
			return false
		}
		locked++
		if !t.shards[i].empty(now) {
			return false
		}
	}
	t.dropped = true
	return true
}

// empty forgets all shares if all of them have ended, and reports whether nothing is left.
func (s *shard) empty(now int64) bool {
	p := s.table.slowest.Load()
	tick := now / p.params.tick
	last := tick - s.owner.grace/p.params.tick
	ended := func(held state) bool {
		return held == (state{}) || p.algorithm.kernel.expires(held, tick, &p.params) <= last
	}
	for _, n := range s.plain {
		if !ended(state{numbers: n}) {
			return false
		}
	}
	for _, log := range s.logs {
		if !ended(state{log: log}) {
			return false
		}
	}
	for _, a := range s.seen {
		if a.resets > now {
			return false
		}
	}
	if s.spill != nil && !s.spill.all(ended) {
		return false
	}
	s.dropAll()
	return true
}

// all reports whether something is true of every place.
func (o *overflow) all(is func(held state) bool) bool {
	for _, n := range o.plain {
		if !is(state{numbers: n}) {
			return false
		}
	}
	for _, log := range o.logs {
		if !is(state{log: log}) {
			return false
		}
	}
	return true
}
