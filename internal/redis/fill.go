package redis

import (
	"slices"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/wire"
)

// Next takes the calls of a batch from the queue and marks the batch as in flight. Without calls the
// sender ends: none wait, or the other senders are enough.
func (b *Batcher) Next(calls []*Call, f *Inflight) []*Call {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	if !b.Senders.tooMany() && !b.Senders.tooSoon(len(b.Waiting)) {
		calls = b.Fill(calls)
	}
	if len(calls) > 0 {
		b.crowded.Store(len(calls) > 1)
		b.ready = max(0, b.ready-1)
		f.calls = calls
		b.Senders.Begin(f)
	} else {
		b.Senders.Open--
	}
	b.startSender()
	if b.held > 0 || len(calls) == 0 && len(b.Waiting) > 0 {
		b.watch()
	}
	return calls
}

// Fill takes the calls of a batch from the queue. The lock must be held.
func (b *Batcher) Fill(calls []*Call) []*Call {
	b.Unsettled.Batch++
	b.held = 0
	var l load
	kept, background := 0, 0
	for i, c := range b.Waiting {
		if l.isFull(c) {
			kept += copy(b.Waiting[kept:], b.Waiting[i:])
			break
		}
		held := b.holds(c)
		if held {
			b.hold(c)
		}
		switch {
		case held || c.refundsLog() && l.logRefunds >= maxLogRefunds:
			b.Waiting[kept] = c
			kept++
		case !c.MarkSent():
			if c.IsBackground() {
				b.Unsettled.remove(c)
			}
			c.Recycle()
		default:
			l.add(c)
			calls = append(calls, c)
			if c.IsBackground() {
				background++
				b.Unsettled.putInBatch(c)
			}
		}
	}
	clear(b.Waiting[kept:])
	b.Waiting = b.Waiting[:kept]
	if background > 0 && background < len(calls) {
		backgroundFirst(calls)
	}
	return calls
}

// load counts what a batch holds.
type load struct{ checks, logRefunds int }

// isFull reports whether a call has to wait for the next batch. One that is too large for any goes alone.
func (l *load) isFull(c *Call) bool { return l.checks > 0 && l.checks+len(c.Checks) > wire.MaxBatch }

// add counts a call.
func (l *load) add(c *Call) {
	l.checks += len(c.Checks)
	if c.refundsLog() {
		l.logRefunds++
	}
}

// refundsLog reports whether a call may rewrite a long log.
func (c *Call) refundsLog() bool {
	if c.Op&wire.Ahead != 0 {
		return false
	}
	for i := range c.Changes {
		p := c.Checks[i].Policy
		if c.Changes[i].Units < 0 && p.Algorithm.Logs && (p.Params.Limit >= longLog || p.Settings.Dynamic) {
			return true
		}
	}
	return false
}

// backgroundFirst moves the operations in the background before the others, which are to see their
// effect.
func backgroundFirst(calls []*Call) {
	slices.SortStableFunc(calls, func(a, b *Call) int {
		switch {
		case a.IsBackground() == b.IsBackground():
			return 0
		case a.IsBackground():
			return -1
		}
		return 1
	})
}
