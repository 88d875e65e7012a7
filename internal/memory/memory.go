// Package memory is the store of a single process. It decides checks by the kernels and keeps their states, their
// bans and the last answers of Redis, within a bound. It may import internal/limiter, kernel,
// and internal/clock.
package memory

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// clockFunc returns the time in microseconds since the Unix epoch. It may run backwards; that refills no
// quota.
type clockFunc func() int64

// Store is the [limiter.Store] of a single process. It is safe for concurrent use. States that have decayed
// to empty are dropped as new states arrive, and slowly if none arrive. When there are too many
// others, new keys have cells in common, so that they can get too little, never too much.
type Store struct {
	Clock      clockFunc
	Grace      int64 // microseconds that a state is kept beyond its end, as in Redis
	MaxKeys    atomic.Int64
	keys       atomic.Int64
	overflowed atomic.Int64
	skipSweeps atomic.Int64 // that many keys overflow without a further sweep
	swept      atomic.Int64 // counts the shards of sweepShards
	Spills     atomic.Int64 // shards with states without room
	Sweeps     clock.Task
	onOverflow atomic.Pointer[func()]

	mu      sync.Mutex
	Tables  map[string]*Table        // by Policy.ID
	created int                      // tables so far
	pruneAt int                      // with that many tables a new one prunes the others
	order   atomic.Pointer[[]*Table] // the same in order of creation, for reading without the lock
}

// DefaultMaxKeys is how many states a [Store] keeps by default.
const DefaultMaxKeys = 1_000_000

// New returns an empty store on this machine's clock.
func New() *Store {
	m := NewOnClock(systemClock)
	m.Sweeps.Run, m.Sweeps.Weak = m.sweepSome, true
	return m
}

// NewOnClock returns an empty store on another clock, such as that of a replay or a test. It drops no states
// unless new ones arrive: that clock may stand still.
func NewOnClock(clock clockFunc) *Store {
	m := &Store{Clock: clock, Grace: 1000, Tables: map[string]*Table{}, pruneAt: minTables}
	m.order.Store(new([]*Table))
	m.MaxKeys.Store(DefaultMaxKeys)
	return m
}

// Limit bounds the states that are kept, from 1. Existing ones stay. The function is called once,
// when the bound is reached for the first time from now on; it must not block. It may be nil.
func (m *Store) Limit(maxKeys int64, onOverflow func()) {
	m.MaxKeys.Store(maxKeys)
	m.onOverflow.Store(&onOverflow)
}

// Len returns the number of states kept, some of which may have decayed to empty.
func (m *Store) Len() int64 { return m.keys.Load() }

// Overflows counts the takes that found no room of their own, so that several keys used one cell, and the answers
// of a shared store that are not remembered for an outage.
func (m *Store) Overflows() int64 { return m.overflowed.Load() }

// countState counts one more state, unless the bound is reached.
func (m *Store) countState() bool {
	for kept := m.keys.Load(); kept < m.MaxKeys.Load(); kept = m.keys.Load() {
		if m.keys.CompareAndSwap(kept, kept+1) {
			m.Sweeps.Start(clock.SweepSpan)
			return true
		}
	}
	return false
}

// countOverflow counts a state without room, and reports the first one.
func (m *Store) countOverflow() {
	m.overflowed.Add(1)
	if callback := m.onOverflow.Swap(nil); callback != nil && *callback != nil {
		(*callback)()
	}
}

// sweepShards drops dead states in other shards than the given one, whose lock is held: their policies may be
// out of use. It visits about `left` states by the function. It goes on where it last ended, a shard of each
// Table in turn, so that dead states are found soon.
func (m *Store) sweepShards(here *Shard, now int64, left int, sweep func(s *Shard, now int64, sample int) (visited int)) {
	tables := *m.order.Load()
	count := int64(len(tables) * limiter.ShardCount)
	for range min(count, sweepShards) {
		at := int(m.swept.Add(1) % count)
		s := &tables[at%len(tables)].Shards[at/len(tables)]
		if s != here && s.Mu.TryLock() {
			left -= sweep(s, now, left)
			s.Mu.Unlock()
		}
		if left <= 0 {
			return
		}
	}
}

// Decide implements [limiter.Store]. It does not wait, and fails for invalid checks alone.
func (m *Store) Decide(_ context.Context, checks []limiter.Check) (limiter.Source, error) {
	err := limiter.Prepare(checks)
	if err == nil {
		m.DecideNow(checks)
	}
	return limiter.SourceMemory, err
}

// DecideNow decides checks that are valid.
func (m *Store) DecideNow(checks []limiter.Check) {
	c := &checks[0]
	if len(checks) > 1 || c.Policy.Ban != nil {
		m.decideMany(checks)
		return
	}
	shard := m.Lock(c.Policy, c.Key.String())
	defer shard.Mu.Unlock()
	now := m.Clock()
	held, place := shard.find(c.Policy, c.Key.String(), now)
	v := limiter.Evaluate(held, now, c)
	if v.Wait == 0 && c.Look {
		show(held, now, c)
		return
	}
	if v.Wait == 0 && !c.Peek {
		shard.take(c, held, place, &v, now)
	}
	limiter.Answer(c, v, now)
	if v.Wait == 0 && c.State.Owner != nil {
		limiter.BeginReservation(c)
	}
}

// part is what a request of several checks has of one: the shard that keeps its state, and what it was answered by.
type part struct {
	shard   *Shard
	held    kernel.State
	place   *kernel.Numbers // of the state, see [Shard.find]
	verdict kernel.Verdict
}

// decideMany locks all the shards concerned in one global order, decides every check, and then
// charges all or none.
func (m *Store) decideMany(checks []limiter.Check) {
	var space [4]part
	var lockSpace [4]*Shard
	parts, locked := m.lockEach(space[:0], lockSpace[:0], checks)
	defer unlockAll(locked)
	now := m.Clock()
	allowed, banned := true, false
	for i := range checks {
		c, p := &checks[i], &parts[i]
		p.held, p.place = p.shard.find(c.Policy, c.Key.String(), now)
		p.verdict = limiter.Evaluate(p.held, now, c)
		limiter.Answer(c, p.verdict, now)
		if c.Policy.Ban != nil && p.shard.refuseBanned(c, now) {
			banned = true
		}
		allowed = allowed && c.Result.Passes()
	}
	if !allowed && !banned {
		countDenials(parts, checks, now)
	}
	for i := range checks {
		c, p := &checks[i], &parts[i]
		if c.Peek || !c.Result.Passes() {
			continue
		}
		if len(locked) < len(parts) { // an earlier take in the same shard may have changed the state
			p.held, p.place = p.shard.find(c.Policy, c.Key.String(), now)
			p.verdict = limiter.Evaluate(p.held, now, c)
		}
		if !allowed || c.Look {
			show(p.held, now, c)
			continue
		}
		p.shard.take(c, p.held, p.place, &p.verdict, now)
		limiter.BeginReservation(c)
	}
}

// Settle corrects what a check took to what its request cost, as failover.Store.Settle does.
func (m *Store) Settle(check limiter.Check, cost int64) {
	m.SettleBy(&check, limiter.SettleTo(&check, cost))
}

// SettleBy corrects what a check took by a change.
func (m *Store) SettleBy(c *limiter.Check, change limiter.Change) {
	if change != (limiter.Change{}) {
		m.on(c, func(s *Shard, c *limiter.Check, now int64) { s.settle(c, change, now) })
	}
}

// on runs a function on the shard of a check.
func (m *Store) on(c *limiter.Check, do func(s *Shard, c *limiter.Check, now int64)) {
	shard := m.Lock(c.Policy, c.Key.String())
	defer shard.Mu.Unlock()
	do(shard, c, m.Clock())
}

// systemClock is the clock of this machine.
func systemClock() int64 { return time.Now().UnixMicro() }
