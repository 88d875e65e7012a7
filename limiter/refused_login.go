package limiter

import (
	"slices"
	"time"
)

// This file keeps Redis in use while it refuses new connections and older ones work, as it does when
// a password was changed there and its file was not. For example with two batches in flight:
//
//	0.0 ms  A third batch leaves. No connection is free, so the client opens one.
//	0.4 ms  Redis refuses its password. Nothing of the batch has run: it returns to the queue.
//	0.5 ms  The first batch is back. Its sender takes the third one along.
//
// For loginPause no more senders open than there were connections that work. Where no older
// connection works, the batch fails, and the breaker opens.

// loginPause is how long after a refused login no further connection is opened.
const loginPause = time.Second

// limitTo keeps the number of senders at what works, for loginPause.
func (s *senders) limitTo(most int) { s.limit, s.limitedUntil = most, time.Now().Add(loginPause) }

// most returns how many senders may be open.
func (s *senders) most() int {
	if s.limit > 0 {
		if time.Now().Before(s.limitedUntil) {
			return s.limit
		}
		s.limit = 0
	}
	return MaxOpenSenders
}

// putBack returns those calls of a batch to the queue that a new connection was refused for, if older
// connections work: a batch is in flight on one, or was answered since this one left. It returns the
// other calls, and why the connection was refused. The lock must be held.
func (b *Batcher) putBack(calls []*Call, sent time.Time) (others []*Call, refusal error) {
	if len(b.Senders.inflights) == 0 && !b.answered.After(sent) {
		return calls, nil
	}
	var back []*Call
	others = slices.DeleteFunc(calls, func(c *Call) bool {
		if !refusedLogin(c.Err) {
			return false
		}
		refusal = c.Err
		c.Err = nil
		if c.state.CompareAndSwap(callSent, callQueued) {
			back = append(back, c)
		} else {
			c.Recycle() // its caller has left
		}
		return true
	})
	if refusal == nil {
		return others, nil
	}
	b.Senders.limitTo(max(1, len(b.Senders.inflights)))
	b.Waiting = slices.Insert(b.Waiting, 0, back...)
	if len(b.Waiting) > 0 {
		b.watch()
	}
	return others, refusal
}

// refused reports a refused connection, whose batch has returned to the queue.
func (b *Batcher) refused(refusal error) {
	if refusal != nil && b.OnRefused != nil {
		b.OnRefused(refusal)
	}
}
