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
			s.Plain = map[string]*kernel.Numbers{}
		}
	}
	return t
}

// addPolicy makes a policy count in this table. The owner's lock is held.
func (t *Table) addPolicy(p *limiter.Policy) {
	kept := t.slowest.Load()
	slow := kept.Params
	slow.Limit, slow.Full = min(slow.Limit, p.Params.Limit), max(slow.Full, p.Params.Full)
	if slow != kept.Params {
		t.slowest.Store(kept.With(slow))
	}
	p.Table.Store(t)
}

// lockAll locks the shard of every part once, in their order, and appends the shards in it.
func lockAll(locked []*Shard, parts []part) []*Shard {
	for i := range parts {
		s, at := parts[i].shard, len(locked)
		for at > 0 && locked[at-1].order > s.order {
			at--
		}
		if at == 0 || locked[at-1] != s {
			locked = slices.Insert(locked, at, s)
		}
	}
	for _, s := range locked {
		s.Mu.Lock()
	}
	return locked
}

func unlockAll(locked []*Shard) {
	for _, s := range locked {
		s.Mu.Unlock()
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
	t.addPolicy(p)
	return t
}

// Lock returns the shard of a key, locked.
func (m *Store) Lock(p *limiter.Policy, key string) *Shard {
	t, made := p.Table.Load().(*Table)
	if !made || t.owner != m {
		t = m.TableOf(p)
	}
	s := t.Shards.Of(key)
	s.Mu.Lock()
	if !s.table.dropped {
		return s
	}
	s.Mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	s = m.findTable(p).Shards.Of(key)
	s.Mu.Lock()
	return s
}

// lockEach appends the parts of the checks, in their order, and locks their shards. A table may be dropped
// between being found and being locked, even by a later check of the same request. The second time
// the lock of the Store keeps all tables.
func (m *Store) lockEach(parts []part, locked []*Shard, checks []limiter.Check) (withShards []part, held []*Shard) {
	var hash uint64
	for i := range checks {
		c := &checks[i]
		if i == 0 || c.Key != checks[i-1].Key { // which most policies of a request have in common
			hash = limiter.HashKey(c.Key.String())
		}
		parts = append(parts, part{shard: &m.TableOf(c.Policy).Shards[hash%limiter.ShardCount]})
	}
	locked = lockAll(locked, parts)
	if !slices.ContainsFunc(locked, func(s *Shard) bool { return s.table.dropped }) {
		return parts, locked
	}
	unlockAll(locked)
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range checks {
		parts[i].shard = m.findTable(checks[i].Policy).Shards.Of(checks[i].Key.String())
	}
	return parts, lockAll(locked[:0], parts)
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
