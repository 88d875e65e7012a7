package lease

import (
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Question is what a node asks Redis about a busy key: to take back what is left of an earlier lease, which the node has
// closed, and to lease the units that the node wishes.
type Question struct {
	Key  *BusyKey
	Wish kernel.Wish
	Rest HeldUnits    // without units left if nothing is given back
	Sent clock.Moment // the lease counts from here
}

// askAhead returns the question to ask in the background if the units left will not last. The lock is
// held.
func (k *BusyKey) askAhead(trip time.Duration) (q Question, ahead bool) {
	if k.asking || k.refused || k.Open == len(k.Leases) {
		return q, false
	}
	wish := k.wish(trip)
	if wish.Units == 0 || k.total() >= wish.Units/4 {
		return q, false
	}
	k.asking = true
	return Question{Key: k, Wish: wish}, true
}

// AskFor asks in the background for a lease of a busy key, whose request was decided along with others.
func (t *Table) AskFor(k *BusyKey) {
	k.shard.Mu.Lock()
	q, ahead := Question{}, false
	if k.gone == keyPresent {
		q, ahead = k.askAhead(t.RoundTrip())
	}
	k.shard.Mu.Unlock()
	if ahead {
		t.Ask(q)
	}
}

// Question closes the oldest lease of a key whose request was not decided by it, and returns what to ask
// along with the request. Only one question at a time has a wish.
func (t *Table) Question(k *BusyKey) Question {
	k.shard.Mu.Lock()
	q := Question{Key: k}
	if k.asking || k.gone != keyPresent {
		k.shard.Mu.Unlock()
		return q
	}
	if q.Wish = k.wish(t.RoundTrip()); q.Wish.Units > 0 {
		k.asking = true
		if k.Open > 0 {
			q.Rest = k.close(0)
		}
	}
	k.shard.Mu.Unlock()
	t.Count(k, limiter.LeaseSpent, q.Rest.units-q.Rest.Left)
	return q
}

// close removes a lease of the key, whose units can then be given back. The lock is held.
func (k *BusyKey) close(i int) HeldUnits {
	l := k.Leases[i]
	copy(k.Leases[i:], k.Leases[i+1:k.Open])
	k.Open--
	k.Leases[k.Open] = HeldUnits{}
	return l
}

// takeUsedUp returns the units of leases that were spent whole since it was last called, less those that were
// put back after they were counted. The lock is held.
func (k *BusyKey) takeUsedUp() int64 {
	units := max(0, k.usedUp)
	k.usedUp -= units
	return units
}

// Answered takes the answer to a question that was sent: how the quota stands, and the units leased. Units
// that come too late, or for a key that is gone, are given back.
func (t *Table) Answered(q Question, unused int64, resetAfter time.Duration, l kernel.Lease) {
	k := q.Key
	t.Count(k, limiter.LeaseReturned, q.Rest.Left)
	lasts := time.Duration(l.Lasts) * time.Microsecond
	held := HeldUnits{units: l.Units, Left: l.Units, Until: q.Sent.Add(lasts - (lasts+7)/8), Receipt: l.Receipt}
	k.shard.Mu.Lock()
	now := t.Now()
	if q.Wish.Units > 0 {
		k.asking, k.refused = false, l.Units == 0
	}
	usedUp := k.takeUsedUp()
	k.remaining, k.resets = unused+k.total(), now.Add(resetAfter)
	fits := k.gone == keyPresent && now < held.Until && k.Open < len(k.Leases)
	if fits && l.Units > 0 {
		k.Number++
		held.Number = k.Number
		k.Leases[k.Open] = held
		k.Open++
		k.expiry.StartBy(held.Until, now)
	}
	lost := k.gone == KeyReset
	k.shard.Mu.Unlock()
	t.Count(k, limiter.LeaseSpent, usedUp)
	switch {
	case l.Units == 0 || fits:
	case lost:
		t.Count(k, limiter.LeaseLapsed, l.Units)
	default:
		t.GiveBack(k, held)
	}
}

// Saw takes the answer to a check of a busy key that leased nothing.
func (t *Table) Saw(k *BusyKey, c *limiter.Check) {
	k.shard.Mu.Lock()
	k.remaining, k.resets = c.Unused()+k.total(), t.Now().Add(c.Result.ResetAfter)
	k.shard.Mu.Unlock()
}

// Failed ends a question without an answer. The units that it was to give back stay leased if the question has certainly
// not arrived and the lease has not ended.
func (t *Table) Failed(q Question, arrived bool) {
	k := q.Key
	k.shard.Mu.Lock()
	if q.Wish.Units > 0 {
		k.asking = false
	}
	kept := false
	if now := t.Now(); !arrived && q.Rest.Left > 0 && k.gone == keyPresent && k.Open < len(k.Leases) && now < q.Rest.Until {
		kept = true
		rest := q.Rest
		rest.units = rest.Left // the others are counted
		copy(k.Leases[1:], k.Leases[:k.Open])
		k.Leases[0] = rest
		k.Open++
		k.expiry.StartBy(rest.Until, now)
	}
	k.shard.Mu.Unlock()
	if !kept {
		t.Count(k, limiter.LeaseLapsed, q.Rest.Left)
	}
}

// expire closes the leases of a key that have ended, and gives back the units that are left. A key without requests is no
// longer busy.
func (t *Table) expire(k *BusyKey) {
	var ended [len(k.Leases)]HeldUnits
	closed := ended[:0]
	k.shard.Mu.Lock()
	now := t.Now()
	usedUp := k.takeUsedUp()
	for i := k.Open - 1; i >= 0; i-- {
		if now >= k.Leases[i].Until {
			closed = append(closed, k.close(i))
		}
	}
	switch {
	case k.gone != keyPresent:
	case k.Open > 0:
		next := k.Leases[0].Until
		for i := range k.Open {
			next = min(next, k.Leases[i].Until)
		}
		k.expiry.StartBy(next, now)
	case k.asking || now.Since(k.Pace.Last) <= k.Policy.Lease:
		k.expiry.StartBy(now.Add(k.Policy.Lease), now)
	default:
		k.gone = KeyEnded
		delete(k.shard.Busy, k.Quota)
	}
	k.shard.Mu.Unlock()
	t.Count(k, limiter.LeaseSpent, usedUp)
	t.giveBackAll(k, closed)
}

// giveBackAll ends leases that were closed.
func (t *Table) giveBackAll(k *BusyKey, closed []HeldUnits) {
	for _, l := range closed {
		t.Count(k, limiter.LeaseSpent, l.units-l.Left)
		if l.Left > 0 {
			t.GiveBack(k, l)
		}
	}
}
