package limiter

import (
	"slices"
)

// next takes the calls of a batch from the queue and marks the batch as in flight. Without calls the
// sender ends: none wait, or the other senders are enough.
func (b *batcher) next(calls []*call, f *inflight) []*call {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.senders.tooMany() && !b.senders.tooSoon(len(b.waiting)) {
		calls = b.fill(calls)
	}
	if len(calls) > 0 {
		b.crowded.Store(len(calls) > 1)
		b.ready = max(0, b.ready-1)
		f.calls = calls
		b.senders.begin(f)
	} else {
		b.senders.open--
	}
	b.startSender()
	if b.held > 0 || len(calls) == 0 && len(b.waiting) > 0 {
		b.watch()
	}
	return calls
}

// fill takes the calls of a batch from the queue. The lock must be held.
func (b *batcher) fill(calls []*call) []*call {
	b.unsettled.batch++
	b.held = 0
	var l load
	kept, background := 0, 0
	for i, c := range b.waiting {
		if l.isFull(c) {
			kept += copy(b.waiting[kept:], b.waiting[i:])
			break
		}
		held := b.holds(c)
		if held {
			b.hold(c)
		}
		switch {
		case held || c.refundsLog() && l.logRefunds >= maxLogRefunds:
			b.waiting[kept] = c
			kept++
		case !c.markSent():
			if c.op.isBackground() {
				b.unsettled.remove(c)
			}
			c.recycle()
		default:
			l.add(c)
			calls = append(calls, c)
			if c.op.isBackground() {
				background++
				b.unsettled.putInBatch(c)
			}
		}
	}
	clear(b.waiting[kept:])
	b.waiting = b.waiting[:kept]
	if background > 0 && background < len(calls) {
		backgroundFirst(calls)
	}
	return calls
}

// load counts what a batch holds.
type load struct{ checks, logRefunds int }

// isFull reports whether a call has to wait for the next batch. One that is too large for any goes alone.
func (l *load) isFull(c *call) bool { return l.checks > 0 && l.checks+len(c.checks) > maxBatch }

// add counts a call.
func (l *load) add(c *call) {
	l.checks += len(c.checks)
	if c.refundsLog() {
		l.logRefunds++
	}
}

// refundsLog reports whether a call may rewrite a long log.
func (c *call) refundsLog() bool {
	return c.op == opSettle && slices.ContainsFunc(c.checks, func(c Check) bool {
		return keptOf(&c).Change < 0 && c.Policy.Rule().Algorithm.Logs && (c.Policy.Rule().Params.Limit >= longLog || c.Policy.Settings().Dynamic)
	})
}

// backgroundFirst moves the operations in the background before the others, which are to see their
// effect.
func backgroundFirst(calls []*call) {
	slices.SortStableFunc(calls, func(a, b *call) int {
		switch {
		case a.op.isBackground() == b.op.isBackground():
			return 0
		case a.op.isBackground():
			return -1
		}
		return 1
	})
}
