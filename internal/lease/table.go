// Package lease holds units of busy keys that this process has taken ahead on Redis. It decides when to ask for units,
// which requests they pay for, and when they are given back. It may import limiter, kernel and internal/clock.
package lease

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// This file keeps the leases of this process: units of busy keys that were taken on Redis ahead of requests, which are
// then decided here. The one rule that nothing may break: a unit is spent or given back, never both, and not spent after
// its lease has ended.
//
//	0.0 ms  The key's ninth request in a row asks Redis, which admits it and leases 100 units for 20 ms.
//	0.3 ms  The answer is here. The lease counts from before the question, so that 17 ms are left of it.
//	8.0 ms  76 requests have been decided here. A question for more leaves in the background.
//	17 ms   The lease is closed, and then what is left of it is given back.
//
// Spending and closing hold one lock. The end of a lease is counted on this process's monotonic clock
// and an eighth earlier than Redis counts it, so that Redis's clock may gain up to a seventh on it.

const (
	// busyKeys is the most busy keys of a shard.
	busyKeys = 1024

	// LeaseSlots is how many keys of a shard are watched for being busy.
	LeaseSlots = 128
)

// Table holds the leases of a failover.Store. Its functions are those of the store that it belongs to.
type Table struct {
	Shards limiter.Shards[leaseShard]
	trip   atomic.Int64 // a smoothed round trip to Redis in nanoseconds; 0 before the first

	Now   func() clock.Moment
	After func(d time.Duration, f func()) clock.Timer // makes the timers; nil: [time.AfterFunc]

	// Ask asks for a lease in the background, and GiveBack gives units of a closed one back. They are
	// called without a lock.
	Ask      func(q Question)
	GiveBack func(k *BusyKey, l HeldUnits)

	// Ended is called with units whose fate is known. May be nil.
	Ended func(policy string, fate limiter.LeaseFate, units int64)
}

// Quota is a quota under one policy. A policy of another configuration, or with another limit, is
// another pointer: the requests that it decides differ.
type Quota struct {
	Policy *limiter.Policy
	Key    string
}

// leaseShard is the part of the table behind one lock.
type leaseShard struct {
	Mu     sync.Mutex
	Busy   map[Quota]*BusyKey
	Seen   *[LeaseSlots]WatchedKey // nil before the first request
	closed bool                    // no key becomes busy any more
}

// BusyKey is a key that is asked for again and again. Its shard's lock guards it.
type BusyKey struct {
	Quota
	shard  *leaseShard
	Pace   Pace
	weight float64 // of a request, on average

	Leases [2]HeldUnits // oldest first
	Open   int          // how many of them there are
	Number uint64       // of the last lease
	usedUp int64        // units of leases that were spent whole, and are not counted yet
	expiry clock.Task   // runs expire

	remaining int64        // of the quota by the last answer, with what is held here and less what was spent since
	resets    clock.Moment // when the quota is as good as new

	asking  bool      // a question with a wish is under way
	refused bool      // the last one leased nothing
	gone    busyState // why it is no more in the shard
}

// busyState says whether a key is still in its shard, and what to do with answers that come later.
type busyState int

// The states of a key.
const (
	keyPresent busyState = iota
	KeyEnded             // leases are given back
	KeyReset             // the state that they were taken from is gone
)

// HeldUnits are the units of one lease that are left.
type HeldUnits struct {
	Number  uint64
	units   int64 // at first
	Left    int64
	Until   clock.Moment
	Receipt kernel.Receipt
}

// NewTable returns an empty table on this process's clock.
func NewTable() *Table {
	t := &Table{Now: clock.Now}
	for s := range t.Shards.All() {
		s.Busy = map[Quota]*BusyKey{}
	}
	return t
}

// MayDecide reports whether a check may be decided by a lease.
func MayDecide(c *limiter.Check) bool { return c.Policy.Lease > 0 && c.Takes() && !c.Refundable }

// Spend decides a check by a lease, if one holds enough units at an instant, and returns the units with
// their lease. Otherwise it returns the key if it is busy, so that the caller may ask for a lease.
func (t *Table) Spend(c *limiter.Check, now clock.Moment) (k *BusyKey, spent HeldUnits) {
	if limiter.NeverPasses(c) { // no lease is sized by what clients ask for in vain
		return nil, HeldUnits{}
	}
	hash := limiter.HashKey(c.Key.String())
	s := &t.Shards[hash%limiter.ShardCount]
	s.Mu.Lock()
	if k = t.find(s, c, hash, now); k == nil {
		s.Mu.Unlock()
		return nil, HeldUnits{}
	}
	if spent = k.take(c, now); spent.Number == 0 {
		s.Mu.Unlock()
		return k, spent
	}
	q, ahead := k.askAhead(t.RoundTrip())
	s.Mu.Unlock()
	if ahead {
		t.Ask(q)
	}
	return k, spent
}

// find returns the check's key if it is busy. The shard's lock is held.
func (t *Table) find(s *leaseShard, c *limiter.Check, hash uint64, now clock.Moment) *BusyKey {
	if len(s.Busy) > 0 {
		if k := s.Busy[Quota{c.Policy, c.Key.String()}]; k != nil {
			k.Pace.note(now, c.Policy.Lease)
			k.weight += (float64(limiter.Units(c)) - k.weight) / PaceSamples
			return k
		}
	}
	if s.closed {
		return nil
	}
	if s.Seen == nil {
		s.Seen = new([LeaseSlots]WatchedKey)
	}
	w := &s.Seen[hash/limiter.ShardCount%LeaseSlots]
	if !w.note(hash^c.Policy.Salt, now, c.Policy.Lease) || len(s.Busy) >= busyKeys {
		return nil
	}
	k := &BusyKey{Quota: Quota{c.Policy, c.Key.String()}, shard: s, Pace: w.Pace, weight: float64(limiter.Units(c))}
	k.expiry.Run, k.expiry.After = func() { t.expire(k) }, t.After
	s.Busy[k.Quota] = k
	k.expiry.StartBy(now.Add(k.Policy.Lease), now)
	return k
}

// take takes the units of a check from a lease, and returns them with the lease; nothing if no lease has enough. The
// lock is held.
func (k *BusyKey) take(c *limiter.Check, now clock.Moment) (spent HeldUnits) {
	weight := limiter.Units(c)
	if c.Reserve > 0 && k.remaining-weight < limiter.Reserve(c) {
		return spent
	}
	for i := range k.Open {
		l := &k.Leases[i]
		if l.Left < weight || now >= l.Until {
			continue
		}
		l.Left -= weight
		k.remaining -= weight
		k.answer(c, now)
		spent = *l
		if l.Left == 0 {
			k.usedUp += l.units
			k.close(i)
		}
		spent.Left = weight
		return spent
	}
	return spent
}

// answer writes the result of a check that was decided here. The lock is held.
func (k *BusyKey) answer(c *limiter.Check, now clock.Moment) {
	c.Result = limiter.Result{
		Remaining:  min(max(0, k.remaining), c.Policy.Params.Capacity),
		ResetAfter: max(0, k.resets.Since(now)),
	}
	if c.Reserve != 0 {
		limiter.Withhold(c, false)
	}
}

// PutBack returns units to the lease that they were taken from, because another check of the request was denied. If the
// lease was closed meanwhile, the units are given back to Redis.
func (t *Table) PutBack(k *BusyKey, l HeldUnits, c *limiter.Check) {
	k.shard.Mu.Lock()
	k.remaining += l.Left
	k.answer(c, t.Now())
	for i := range k.Open {
		if k.Leases[i].Number == l.Number {
			k.Leases[i].Left += l.Left
			k.shard.Mu.Unlock()
			return
		}
	}
	lost := k.gone == KeyReset
	k.usedUp -= l.Left // they were counted as spent when the lease was closed
	k.shard.Mu.Unlock()
	if lost {
		t.Count(k, limiter.LeaseLapsed, l.Left)
		return
	}
	t.GiveBack(k, l)
}

// total returns the units that are left of all leases. The lock is held.
func (k *BusyKey) total() (left int64) {
	for i := range k.Open {
		left += k.Leases[i].Left
	}
	return left
}

// Count reports what became of units of a lease, unless there are none.
func (t *Table) Count(k *BusyKey, fate limiter.LeaseFate, units int64) {
	if t.Ended != nil && units > 0 {
		t.Ended(k.Policy.Name(), fate, units)
	}
}

// RoundTrip returns about how long a question to Redis takes; 0 if that is unknown.
func (t *Table) RoundTrip() time.Duration { return time.Duration(t.trip.Load()) }

// LearnTrip adds a round trip to the average. Round trips without a lease count too: a node that leases nothing because
// one answer was late would otherwise never find out that later answers come in time.
func (t *Table) LearnTrip(took time.Duration) {
	old := t.trip.Load()
	if old == 0 {
		t.trip.CompareAndSwap(0, int64(took))
		return
	}
	t.trip.CompareAndSwap(old, old+(int64(took)-old)/PaceSamples)
}
