package memory

import (
	"slices"
	"sync/atomic"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Table holds the states of one policy in a [Store], and of all that differ in limit or burst
// alone.
type Table struct {
	owner  *Store
	Shards limiter.Shards[Shard]

	// dropped reports that nothing may be stored here any more. It is read under the lock of any
	// shard and set under those of all.
	dropped bool

	// slowest has the lowest limit of the policies so far, and the longest time in which a full
	// bucket drains. No other keeps a state longer.
	slowest atomic.Pointer[limiter.Policy]
}

func newTable(owner *Store, number int, p *limiter.Policy) *Table {
	t := &Table{owner: owner}
	t.slowest.Store(p)
	for i := range t.Shards {
		s := &t.Shards[i]
		s.owner, s.table, s.order = owner, t, number*limiter.ShardCount+i
		switch {
		case p.CountsRunning:
			s.running = map[string]int64{}
		case p.Algorithm.Logs:
			s.logs = map[string]*kernel.UnitLog{}
		default:
			s.Plain = map[string]kernel.Numbers{}
		}
	}
	return t
}

// admit makes a policy count in this table. The owner's lock is held.
func (t *Table) admit(p *limiter.Policy) {
	kept := t.slowest.Load()
	slow := kept.Params
	slow.Limit, slow.Full = min(slow.Limit, p.Params.Limit), max(slow.Full, p.Params.Full)
	if slow != kept.Params {
		t.slowest.Store(kept.With(slow))
	}
	p.Table.Store(t)
}

// ShardOf returns the shard of a key.
func (t *Table) ShardOf(key string) *Shard {
	return t.Shards.Of(key)
}

// lockAll locks every shard once, in their order, and returns the function that unlocks them. The
// given slice keeps its order.
func lockAll(shards []*Shard) (unlock func()) {
	ordered := slices.Clone(shards)
	slices.SortFunc(ordered, func(a, b *Shard) int { return a.order - b.order })
	ordered = slices.Compact(ordered)
	for _, s := range ordered {
		s.Mu.Lock()
	}
	return func() {
		for _, s := range ordered {
			s.Mu.Unlock()
		}
	}
}

// TableOf returns the table of a policy. The policy caches it.
func (m *Store) TableOf(p *limiter.Policy) *Table {
	if t, made := p.Table.Load().(*Table); made && t.owner == m {
		return t
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, found := m.Tables[p.ID]; !found && len(m.Tables) >= m.pruneAt {
		m.prune()
	}
	return m.findTable(p)
}

// findTable returns the table of a policy, and makes it if there is none. It drops no other. The
// lock is held.
func (m *Store) findTable(p *limiter.Policy) *Table {
	t, found := m.Tables[p.ID]
	if !found {
		t = newTable(m, m.created, p)
		m.created++
		m.Tables[p.ID] = t
		order := append(slices.Clone(*m.order.Load()), t)
		m.order.Store(&order)
	}
	t.admit(p)
	return t
}

// Lock returns the shard of a key, locked.
func (m *Store) Lock(p *limiter.Policy, key string) *Shard {
	s := m.TableOf(p).ShardOf(key)
	s.Mu.Lock()
	if !s.table.dropped {
		return s
	}
	s.Mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	s = m.findTable(p).ShardOf(key)
	s.Mu.Lock()
	return s
}

// lockEach appends the shards of the checks, in their order, and locks them. A table may be dropped
// between being found and being locked, even by a later check of the same request. The second time
// the lock of the Store keeps all tables.
func (m *Store) lockEach(shards []*Shard, checks []limiter.Check) (locked []*Shard, unlock func()) {
	for i := range checks {
		shards = append(shards, m.TableOf(checks[i].Policy).ShardOf(checks[i].Key.String()))
	}
	unlock = lockAll(shards)
	if !slices.ContainsFunc(shards, func(s *Shard) bool { return s.table.dropped }) {
		return shards, unlock
	}
	unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range checks {
		shards[i] = m.findTable(checks[i].Policy).ShardOf(checks[i].Key.String())
	}
	return shards, lockAll(shards)
}

// AnyPolicy is the name of no policy.
const AnyPolicy = "*"

// eachShardOf runs a function on the shards of the policy of that name, of all policies if it is
// [AnyPolicy], with their locks held.
func (m *Store) eachShardOf(policy string, do func(*Shard)) {
	for _, t := range *m.order.Load() {
		if policy != AnyPolicy && policy != t.slowest.Load().Name() {
			continue
		}
		for s := range t.Shards.All() {
			s.Mu.Lock()
			do(s)
			s.Mu.Unlock()
		}
	}
}
