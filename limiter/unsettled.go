package limiter

import (
	"slices"
	"time"
)

// This file keeps refunds and charges, which run in the background, ahead of the same client's next
// request. The response leaves after they are queued, so the next request arrives later. In a batch
// of its own, or by another sender, it could still reach Redis first:
//
//	0.0 ms  A response refunds a unit. The refund leaves in a batch.
//	0.1 ms  The client's next request arrives. It waits in the queue, where others pass it.
//	0.3 ms  The batch with the refund is back, and the request leaves in the next one.

const (
	// maxLogRefunds is the most refunds of long logs in one batch. A run of the script does those
	// that take half a millisecond together and postpones the others. On a Cluster a batch is a run
	// for each slot.
	maxLogRefunds = 8

	// longLog is the limit from which a log counts as long.
	longLog = 64

	// maxFollowed is the most operations on a key that a request of the same key waits for. A key
	// with more belongs to many clients, whose requests do not follow one another.
	maxFollowed = 4

	// followSpan, and the time after which a batch counts as stalled, is how long a request waits
	// for them; at most half of the timeout.
	followSpan = 10 * time.Millisecond
)

// unsettled counts a batcher's operations in the background, from the queue to the answer. It is
// guarded by the batcher's lock; the zero value has none.
type unsettled struct {
	quotas map[quotaName]unsettledQuota
	batch  int64 // number of the batch that is being filled
}

// unsettledQuota counts the operations on one quota.
type unsettledQuota struct {
	pending int
	batched int   // of them, those in the batch below
	batch   int64 // its number
}

// add counts a call in the background.
func (u *unsettled) add(c *call) {
	if u.quotas == nil {
		u.quotas = map[quotaName]unsettledQuota{}
	}
	for _, check := range c.quotas() {
		name := quotaNameOf(&check)
		q := u.quotas[name]
		q.pending++
		u.quotas[name] = q
	}
}

// remove ends a call in the background.
func (u *unsettled) remove(c *call) {
	for _, check := range c.quotas() {
		name := quotaNameOf(&check)
		q := u.quotas[name]
		q.pending--
		if q.pending > 0 {
			u.quotas[name] = q
		} else {
			delete(u.quotas, name)
		}
	}
}

// putInBatch notes that a call in the background is in the batch that is being filled.
func (u *unsettled) putInBatch(c *call) {
	for _, check := range c.quotas() {
		name := quotaNameOf(&check)
		q := u.quotas[name]
		if q.batch != u.batch {
			q.batch, q.batched = u.batch, 0
		}
		q.batched++
		u.quotas[name] = q
	}
}

// isFollowedBy reports whether a call has to wait for operations on its quotas.
func (u *unsettled) isFollowedBy(c *call) bool {
	if len(u.quotas) == 0 || c.op.isBackground() {
		return false
	}
	for i := range c.checks {
		if n := u.quotas[quotaNameOf(&c.checks[i])].pending; n > 0 && n <= maxFollowed {
			return true
		}
	}
	return false
}

// isElsewhere reports whether operations on a call's quotas are not in the batch that is being filled.
func (u *unsettled) isElsewhere(c *call) bool {
	for i := range c.checks {
		q := u.quotas[quotaNameOf(&c.checks[i])]
		if q.batch != u.batch {
			q.batched = 0
		}
		if q.pending > q.batched {
			return true
		}
	}
	return false
}

// follow makes a call wait for operations on its quotas, if there are any. The lock must be held.
func (b *batcher) follow(c *call) {
	c.heldUntil = time.Time{}
	if b.unsettled.isFollowedBy(c) {
		c.heldUntil = time.Now().Add(min(followSpan+b.senders.stallTimeout(), b.timeout/2))
	}
}

// holds reports whether a call has to wait for another batch. The lock must be held.
func (b *batcher) holds(c *call) bool {
	return !c.heldUntil.IsZero() && b.unsettled.isElsewhere(c) && time.Now().Before(c.heldUntil)
}

// hold counts a call that has to wait for another batch. The lock must be held.
func (b *batcher) hold(c *call) {
	if b.held == 0 || c.heldUntil.Before(b.heldUntil) {
		b.heldUntil = c.heldUntil
	}
	b.held++
}

// finishBackground ends a batch's operations in the background. Those that the script has postponed return to
// the queue and leave the calls. The lock must be held.
func (b *batcher) finishBackground(calls []*call) []*call {
	return slices.DeleteFunc(calls, func(c *call) bool {
		if !c.op.isBackground() {
			return false
		}
		b.unsettled.remove(c)
		if len(b.waiting) >= maxQueue || !c.isPostponed() {
			return false
		}
		c.keepPostponed()
		c.state.Store(callQueued)
		b.unsettled.add(c)
		b.waiting = append(b.waiting, c)
		return true
	})
}
