package redis

import (
	"slices"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
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
	Quotas map[limiter.QuotaName]unsettledQuota
	Batch  int64 // number of the batch that is being filled
}

// unsettledQuota counts the operations on one quota.
type unsettledQuota struct {
	pending int
	batched int   // of them, those in the batch below
	batch   int64 // its number
}

// add counts a call in the background.
func (u *unsettled) add(c *Call) {
	if u.Quotas == nil {
		u.Quotas = map[limiter.QuotaName]unsettledQuota{}
	}
	for _, check := range c.Quotas() {
		name := limiter.QuotaNameOf(&check)
		q := u.Quotas[name]
		q.pending++
		u.Quotas[name] = q
	}
}

// remove ends a call in the background.
func (u *unsettled) remove(c *Call) {
	for _, check := range c.Quotas() {
		name := limiter.QuotaNameOf(&check)
		q := u.Quotas[name]
		q.pending--
		if q.pending > 0 {
			u.Quotas[name] = q
		} else {
			delete(u.Quotas, name)
		}
	}
}

// putInBatch notes that a call in the background is in the batch that is being filled.
func (u *unsettled) putInBatch(c *Call) {
	for _, check := range c.Quotas() {
		name := limiter.QuotaNameOf(&check)
		q := u.Quotas[name]
		if q.batch != u.Batch {
			q.batch, q.batched = u.Batch, 0
		}
		q.batched++
		u.Quotas[name] = q
	}
}

// isFollowedBy reports whether a call has to wait for operations on its quotas.
func (u *unsettled) isFollowedBy(c *Call) bool {
	if len(u.Quotas) == 0 || c.IsBackground() {
		return false
	}
	for i := range c.Checks {
		if n := u.Quotas[limiter.QuotaNameOf(&c.Checks[i])].pending; n > 0 && n <= maxFollowed {
			return true
		}
	}
	return false
}

// isElsewhere reports whether operations on a call's quotas are not in the batch that is being filled.
func (u *unsettled) isElsewhere(c *Call) bool {
	for i := range c.Checks {
		q := u.Quotas[limiter.QuotaNameOf(&c.Checks[i])]
		if q.batch != u.Batch {
			q.batched = 0
		}
		if q.pending > q.batched {
			return true
		}
	}
	return false
}

// follow sets until when a call waits for operations on its quotas, if there are any. The lock must be held.
func (b *batcher) follow(c *Call) {
	c.heldUntil = 0
	if b.Unsettled.isFollowedBy(c) {
		c.heldUntil = clock.Now().Add(min(followSpan+b.Senders.stallTimeout(), b.Timeout/2))
	}
}

// holds reports whether a call has to wait for another batch. The lock must be held.
func (b *batcher) holds(c *Call) bool {
	return c.heldUntil != 0 && b.Unsettled.isElsewhere(c) && clock.Now() < c.heldUntil
}

// hold counts a call that has to wait for another batch. The lock must be held.
func (b *batcher) hold(c *Call) {
	if b.held == 0 || c.heldUntil < b.heldUntil {
		b.heldUntil = c.heldUntil
	}
	b.held++
}

// finishBackground ends a batch's operations in the background. Those that the script has postponed return to
// the queue and leave the calls. The lock must be held.
func (b *batcher) finishBackground(calls []*Call) []*Call {
	return slices.DeleteFunc(calls, func(c *Call) bool {
		if !c.IsBackground() {
			return false
		}
		b.Unsettled.remove(c)
		if len(b.Waiting) >= MaxQueue || !c.IsPostponed() {
			return false
		}
		c.KeepPostponed()
		c.state.Store(callQueued)
		b.Unsettled.add(c)
		b.Waiting = append(b.Waiting, c)
		return true
	})
}
