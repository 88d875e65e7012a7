package limiter

import (
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
)

// leaseQuestion is what a node asks Redis about a busy key: to take back what is left of an earlier lease,
// which is closed, and to lease what is wished.
type leaseQuestion struct {
	key  *busyKey
	wish kernel.Wish
	rest heldUnits    // with no units left where nothing is given back
	sent clock.Moment // the lease counts from here
}

// askAhead returns the question to ask in the background, where the units left will not last. The lock is
// held.
func (k *busyKey) askAhead(trip time.Duration) (q leaseQuestion, ahead bool) {
	if k.asking || k.refused || k.open == len(k.leases) {
		return q, false
	}
	wish := k.wish(trip)
	if wish.Units == 0 || k.total() >= wish.Units/4 {
		return q, false
	}
	k.asking = true
	return leaseQuestion{key: k, wish: wish}, true
}

// askFor asks in the background for a lease of a busy key, whose request was decided along with others.
func (t *leaseTable) askFor(k *busyKey) {
	k.shard.mu.Lock()
	q, ahead := leaseQuestion{}, false
	if k.gone == keyPresent {
		q, ahead = k.askAhead(t.roundTrip())
	}
	k.shard.mu.Unlock()
	if ahead {
		t.ask(q)
	}
}

// question closes the oldest lease of a key whose request was not decided by it, and returns what to ask
// along with the request. Only one question at a time has a wish.
func (t *leaseTable) question(k *busyKey) leaseQuestion {
	k.shard.mu.Lock()
	q := leaseQuestion{key: k}
	if k.asking || k.gone != keyPresent {
		k.shard.mu.Unlock()
		return q
	}
	if q.wish = k.wish(t.roundTrip()); q.wish.Units > 0 {
		k.asking = true
		if k.open > 0 {
			q.rest = k.close(0)
		}
	}
	k.shard.mu.Unlock()
	t.count(k, LeaseSpent, q.rest.units-q.rest.left)
	return q
}

// close removes a lease of the key, whose units can then be given back. The lock is held.
func (k *busyKey) close(i int) heldUnits {
	l := k.leases[i]
	copy(k.leases[i:], k.leases[i+1:k.open])
	k.open--
	k.leases[k.open] = heldUnits{}
	return l
}

// takeUsedUp returns the units of leases that were spent whole since it was last called, less those that were
// put back after they were counted. The lock is held.
func (k *busyKey) takeUsedUp() int64 {
	units := max(0, k.usedUp)
	k.usedUp -= units
	return units
}

// answered takes the answer to a question that was sent: how the quota stands, and the units leased. Units
// that come too late, or for a key that is gone, are given back.
func (t *leaseTable) answered(q leaseQuestion, unused int64, resetAfter time.Duration, l kernel.Lease) {
	k := q.key
	t.count(k, LeaseReturned, q.rest.left)
	lasts := time.Duration(l.Lasts) * time.Microsecond
	held := heldUnits{units: l.Units, left: l.Units, until: q.sent.Add(lasts - (lasts+7)/8), receipt: l.Receipt}
	k.shard.mu.Lock()
	now := t.now()
	if q.wish.Units > 0 {
		k.asking, k.refused = false, l.Units == 0
	}
	usedUp := k.takeUsedUp()
	k.remaining, k.resets = unused+k.total(), now.Add(resetAfter)
	fits := k.gone == keyPresent && now < held.until && k.open < len(k.leases)
	if fits && l.Units > 0 {
		k.number++
		held.number = k.number
		k.leases[k.open] = held
		k.open++
		t.wake(k, held.until, now)
	}
	lost := k.gone == keyReset
	k.shard.mu.Unlock()
	t.count(k, LeaseSpent, usedUp)
	switch {
	case l.Units == 0 || fits:
	case lost:
		t.count(k, LeaseLapsed, l.Units)
	default:
		t.giveBack(k, held)
	}
}

// saw takes the answer to a check of a busy key that leased nothing.
func (t *leaseTable) saw(k *busyKey, c *Check) {
	k.shard.mu.Lock()
	k.remaining, k.resets = c.Unused()+k.total(), t.now().Add(c.Result.ResetAfter)
	k.shard.mu.Unlock()
}

// failed takes note of a question without an answer. What it was to give back stays held if it has
// certainly not arrived, and the lease has not ended.
func (t *leaseTable) failed(q leaseQuestion, arrived bool) {
	k := q.key
	k.shard.mu.Lock()
	if q.wish.Units > 0 {
		k.asking = false
	}
	kept := false
	if now := t.now(); !arrived && q.rest.left > 0 && k.gone == keyPresent && k.open < len(k.leases) && now < q.rest.until {
		kept = true
		rest := q.rest
		rest.units = rest.left // the others are counted
		copy(k.leases[1:], k.leases[:k.open])
		k.leases[0] = rest
		k.open++
		t.wake(k, rest.until, now)
	}
	k.shard.mu.Unlock()
	if !kept {
		t.count(k, LeaseLapsed, q.rest.left)
	}
}

// wake makes the key's timer run at an instant, or earlier. The lock is held.
func (t *leaseTable) wake(k *busyKey, at, now clock.Moment) {
	switch {
	case k.timer == nil:
		k.timer = t.after(at.Since(now), func() { t.expire(k) })
	case k.at <= at:
		return
	default:
		k.timer.Reset(at.Since(now))
	}
	k.at = at
}

// neverWakes is the instant of a timer that is not set.
const neverWakes = clock.Moment(1<<63 - 1)

// expire closes the leases of a key that have ended, and gives back what is left of them. A key that is not
// asked for any more is no longer busy.
func (t *leaseTable) expire(k *busyKey) {
	var ended [len(k.leases)]heldUnits
	closed := ended[:0]
	k.shard.mu.Lock()
	now := t.now()
	k.at = neverWakes
	usedUp := k.takeUsedUp()
	for i := k.open - 1; i >= 0; i-- {
		if now >= k.leases[i].until {
			closed = append(closed, k.close(i))
		}
	}
	switch {
	case k.gone != keyPresent:
	case k.open > 0:
		next := k.leases[0].until
		for i := range k.open {
			next = min(next, k.leases[i].until)
		}
		t.wake(k, next, now)
	case k.asking || now.Since(k.pace.last) <= k.policy.Rule().Lease:
		t.wake(k, now.Add(k.policy.Rule().Lease), now)
	default:
		k.gone = keyEnded
		delete(k.shard.busy, k.leaseKey)
	}
	k.shard.mu.Unlock()
	t.count(k, LeaseSpent, usedUp)
	t.giveBackAll(k, closed)
}

// giveBackAll ends leases that were closed.
func (t *leaseTable) giveBackAll(k *busyKey, closed []heldUnits) {
	for _, l := range closed {
		t.count(k, LeaseSpent, l.units-l.left)
		if l.left > 0 {
			t.giveBack(k, l)
		}
	}
}
