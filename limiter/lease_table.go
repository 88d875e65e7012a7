package limiter

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
)

// This file keeps the leases of this process: units of busy keys that were taken on Redis ahead of their
// requests, which are then decided here. The one rule that nothing may break: a unit is spent or given
// back, never both, and not spent after its lease has ended.
//
//	0.0 ms  The key's ninth request in a row asks Redis, which admits it and leases 100 units for 20 ms.
//	0.3 ms  The answer is here. The lease counts from before the question, so that 17 ms are left of it.
//	8.0 ms  76 requests have been decided here. A question for more leaves in the background.
//	17 ms   The lease is closed, and then what is left of it is given back.
//
// Spending and closing hold one lock. The end of a lease is counted on this process's monotonic clock
// and an eighth earlier than Redis counts it, so that Redis's clock may gain up to a seventh on it.

const (
	// leaseShards is how many locks the keys are spread over.
	leaseShards = 64

	// busyKeys is the most busy keys of a shard.
	busyKeys = 1024

	// leaseSlots is how many keys of a shard are watched for being busy.
	leaseSlots = 128
)

// leaseTable holds the leases of a [Failover]. Its functions are those of the store that it belongs to.
type leaseTable struct {
	seed   maphash.Seed
	shards [leaseShards]leaseShard
	trip   atomic.Int64 // a smoothed round trip to Redis in nanoseconds; 0 before the first

	now   func() clock.Moment
	after func(d time.Duration, f func()) leaseTimer

	// ask asks for a lease in the background, and giveBack gives units of a closed one back. They are
	// called without a lock.
	ask      func(q leaseQuestion)
	giveBack func(k *busyKey, l heldUnits)

	// ended is called with units whose fate is known. May be nil.
	ended func(policy string, fate LeaseFate, units int64)
}

// leaseTimer is what of a [time.Timer] is used.
type leaseTimer interface {
	Reset(d time.Duration) bool
	Stop() bool
}

// LeaseFate is what became of units of a lease.
type LeaseFate string

// The fates of leased units.
const (
	LeaseSpent    LeaseFate = "spent"    // by requests
	LeaseReturned LeaseFate = "returned" // given back
	LeaseLapsed   LeaseFate = "lapsed"   // neither; they count as used until they decay
)

// leaseKey is a quota under one policy. A policy of another configuration, or with another limit, is
// another pointer: the requests that it decides differ.
type leaseKey struct {
	policy *Policy
	key    string
}

// leaseShard is the part of the table behind one lock.
type leaseShard struct {
	mu     sync.Mutex
	busy   map[leaseKey]*busyKey
	seen   *[leaseSlots]watchedKey // nil before the first request
	closed bool                    // no key becomes busy any more
}

// busyKey is a key that is asked for again and again. Its shard's lock guards it.
type busyKey struct {
	leaseKey
	shard  *leaseShard
	pace   pace
	weight float64 // of a request, on average

	leases [2]heldUnits // oldest first
	open   int          // how many of them there are
	number uint64       // of the last lease
	usedUp int64        // units of leases that were spent whole, and are not counted yet
	timer  leaseTimer   // runs expire; nil before the first lease
	at     clock.Moment // when it runs

	remaining int64        // of the quota by the last answer, with what is held here and less what was spent since
	resets    clock.Moment // when the quota is as good as new

	asking  bool      // a question with a wish is under way
	refused bool      // the last one leased nothing
	gone    busyState // why it is no more in the shard
}

// busyState says whether a key is still in its shard, and what to do with answers that come later.
type busyState int

const (
	keyPresent busyState = iota
	keyEnded             // leases are given back
	keyReset             // the state that they were taken from is gone
)

// heldUnits are the units of one lease that are left.
type heldUnits struct {
	number  uint64
	units   int64 // at first
	left    int64
	until   clock.Moment
	receipt kernel.Receipt
}

// newLeaseTable returns an empty table on this process's clock.
func newLeaseTable() *leaseTable {
	t := &leaseTable{seed: maphash.MakeSeed(), now: clock.Now}
	t.after = func(d time.Duration, f func()) leaseTimer { return time.AfterFunc(d, f) }
	for i := range t.shards {
		t.shards[i].busy = map[leaseKey]*busyKey{}
	}
	return t
}

// leases reports whether a check may be decided by a lease.
func (c *Check) leases() bool { return c.Policy.Rule().Lease > 0 && !c.Peek && !c.Refundable }

// spend decides a check by a lease, if one holds enough units at an instant, and returns the units with
// their lease. Otherwise it returns the key if it is busy, so that the caller may ask for a lease.
func (t *leaseTable) spend(c *Check, now clock.Moment) (k *busyKey, spent heldUnits) {
	hash := maphash.String(t.seed, c.Key.String())
	s := &t.shards[hash%leaseShards]
	s.mu.Lock()
	if k = t.find(s, c, hash, now); k == nil {
		s.mu.Unlock()
		return nil, heldUnits{}
	}
	if spent = k.take(c, now); spent.number == 0 {
		s.mu.Unlock()
		return k, spent
	}
	q, ahead := k.askAhead(t.roundTrip())
	s.mu.Unlock()
	if ahead {
		t.ask(q)
	}
	return k, spent
}

// find returns the check's key if it is busy. The shard's lock is held.
func (t *leaseTable) find(s *leaseShard, c *Check, hash uint64, now clock.Moment) *busyKey {
	if len(s.busy) > 0 {
		if k := s.busy[leaseKey{c.Policy, c.Key.String()}]; k != nil {
			k.pace.note(now, c.Policy.Rule().Lease)
			k.weight += (float64(unitsOf(c)) - k.weight) / paceSamples
			return k
		}
	}
	if s.closed {
		return nil
	}
	if s.seen == nil {
		s.seen = new([leaseSlots]watchedKey)
	}
	w := &s.seen[hash/leaseShards%leaseSlots]
	if !w.note(hash^c.Policy.Rule().Salt, now, c.Policy.Rule().Lease) || len(s.busy) >= busyKeys {
		return nil
	}
	k := &busyKey{leaseKey: leaseKey{c.Policy, c.Key.String()}, shard: s, pace: w.pace, weight: float64(unitsOf(c))}
	s.busy[k.leaseKey] = k
	t.wake(k, now.Add(k.policy.Rule().Lease), now)
	return k
}

// take takes the units of a check from a lease, and returns them with it; nothing where none has them. The
// lock is held.
func (k *busyKey) take(c *Check, now clock.Moment) (spent heldUnits) {
	weight := unitsOf(c)
	if c.Reserve > 0 && k.remaining-weight < reserveOf(c) {
		return spent
	}
	for i := range k.open {
		l := &k.leases[i]
		if l.left < weight || now >= l.until {
			continue
		}
		l.left -= weight
		k.remaining -= weight
		k.answer(c, now)
		spent = *l
		if l.left == 0 {
			k.usedUp += l.units
			k.close(i)
		}
		spent.left = weight
		return spent
	}
	return spent
}

// answer writes the result of a check that was decided here. The lock is held.
func (k *busyKey) answer(c *Check, now clock.Moment) {
	c.Result = Result{
		Remaining:  min(max(0, k.remaining), c.Policy.Rule().Params.Capacity),
		ResetAfter: max(0, k.resets.Since(now)),
	}
	withhold(c)
}

// putBack returns units that were taken from a lease for a check of a request that another one has denied.
// Where the lease was closed meanwhile they are given back.
func (t *leaseTable) putBack(k *busyKey, l heldUnits, c *Check) {
	k.shard.mu.Lock()
	k.remaining += l.left
	k.answer(c, t.now())
	for i := range k.open {
		if k.leases[i].number == l.number {
			k.leases[i].left += l.left
			k.shard.mu.Unlock()
			return
		}
	}
	lost := k.gone == keyReset
	k.usedUp -= l.left // they were counted as spent when the lease was closed
	k.shard.mu.Unlock()
	if lost {
		t.count(k, LeaseLapsed, l.left)
		return
	}
	t.giveBack(k, l)
}

// total returns the units that are left of all leases. The lock is held.
func (k *busyKey) total() (left int64) {
	for i := range k.open {
		left += k.leases[i].left
	}
	return left
}

func (t *leaseTable) count(k *busyKey, fate LeaseFate, units int64) {
	if t.ended != nil && units > 0 {
		t.ended(k.policy.Name(), fate, units)
	}
}

// roundTrip returns how long a question to Redis takes about; 0 where that is unknown.
func (t *leaseTable) roundTrip() time.Duration { return time.Duration(t.trip.Load()) }

// learnTrip adds a round trip to the average. Those without a lease count too: a node that leases nothing
// because one answer was late would never find out that the next ones are not.
func (t *leaseTable) learnTrip(took time.Duration) {
	old := t.trip.Load()
	if old == 0 {
		t.trip.CompareAndSwap(0, int64(took))
		return
	}
	t.trip.CompareAndSwap(old, old+(int64(took)-old)/paceSamples)
}
