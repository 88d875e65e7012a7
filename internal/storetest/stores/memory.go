package stores

import (
	"maps"
	"slices"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
)

// NewMemory returns an in-process store on a clock of the test's, and what it plays to.
func NewMemory() (*storetest.Candidate, *memory.Store) {
	now := new(int64)
	m := memory.NewOnClock(func() int64 { return *now })
	m.Grace = 1 << 50 // the test's clock runs backwards by days
	s := &storetest.Candidate{Store: m, Name: "memory", Source: limiter.SourceMemory, Settle: m.Settle, Await: func() {}}
	s.SetClock = func(micros int64) { *now = micros }
	s.Repay = func(_ testing.TB, c *limiter.Check, d kernel.Debt) int64 { return repay(m, *now, c, d) }
	s.Lease = func(_ testing.TB, c *limiter.Check, wish kernel.Wish, rest int64, r kernel.Receipt) (limiter.Result, kernel.Lease) {
		return lease(m, *now, c, wish, rest, r)
	}
	s.Copy = func(p *limiter.Policy) *storetest.Candidate { return copyOf(m, p) }
	return s, m
}

// OpenMemory returns a store of the suite in the process.
func OpenMemory(testing.TB) *storetest.Candidate {
	s, _ := NewMemory()
	return s
}

// repay adds a debt by the Go twins, and returns the units that were settled.
func repay(m *memory.Store, now int64, c *limiter.Check, d kernel.Debt) int64 {
	shard := m.Lock(c.Policy, c.Key.String())
	defer shard.Mu.Unlock()
	old := shard.Get(c.Policy, c.Key.String(), now)
	settled, units := c.Policy.Algorithm.Kernel.Repay(old, now/c.Policy.Params.Tick, &c.Policy.Params, d)
	if units > 0 || !c.Policy.Algorithm.Logs && settled != old {
		shard.Store(c, old, settled, now)
	}
	return units
}

// lease gives back and leases by the Go twins.
func lease(m *memory.Store, now int64, c *limiter.Check, wish kernel.Wish, rest int64, r kernel.Receipt) (limiter.Result, kernel.Lease) {
	shard := m.Lock(c.Policy, c.Key.String())
	defer shard.Mu.Unlock()
	p, own := &c.Policy.Params, *c
	k := c.Policy.Algorithm.Kernel.(kernel.Leasing) //nolint:forcetypeassert,errcheck // the suite leases no others
	old := shard.Get(c.Policy, c.Key.String(), now)
	next := old
	if rest > 0 {
		next = k.GiveBack(next, now/p.Tick, p, rest, r)
	}
	if limiter.NeverPasses(&own) {
		limiter.Answer(&own, limiter.Evaluate(next, now, &own), now)
		shard.Put(c.Key.String(), next)
		return own.Result, kernel.Lease{}
	}
	v, l, next := k.Lease(next, now/p.Tick, p, limiter.Units(&own), limiter.Reserve(&own), wish)
	if old != (kernel.State{}) || next != (kernel.State{}) {
		shard.Store(c, old, next, now)
	}
	limiter.Answer(&own, v, now)
	if l.Units == 0 {
		return own.Result, kernel.Lease{}
	}
	l.Lasts = micros(p, l.Lasts, now%p.Tick)
	return own.Result, l
}

// micros returns a duration in ticks in microseconds, as scripts do. The offset is the part below a tick of the instant
// that the duration begins at. 0 and Never stay what they are.
func micros(p *kernel.Params, ticks, offset int64) int64 {
	if ticks <= 0 {
		return ticks
	}
	return ticks*p.Tick - offset
}

// copyOf returns a store in the same state of the policy's key k.
func copyOf(m *memory.Store, p *limiter.Policy) *storetest.Candidate {
	held := m.TableOf(p).Shards.Of("k")
	state, _ := held.Kept("k")
	if state.Log != nil {
		state.Log = &kernel.UnitLog{Entries: slices.Clone(state.Log.Entries), Before: state.Log.Before}
	}
	s, twin := NewMemory()
	shard := twin.TableOf(p).Shards.Of("k")
	shard.Put("k", state)
	shard.Bans = maps.Clone(held.Bans)
	return s
}
