package limiter

import (
	"context"
	"sync"
	"time"
)

const (
	// maxBatch is the most checks of one script run, unless a single request has more. It bounds how
	// long a run keeps Redis from serving others: about half a millisecond.
	maxBatch = 128

	// maxQueue is the most requests that wait for a lane; further ones are not decided. What runs in
	// the background may fill half of it.
	maxQueue = 16384
)

// batcher sends calls in batches: those that arrive while all lanes are busy travel together in
// the next one. A lone call goes at once, sent by its own goroutine where a connection is ready.
// Nothing waits for a batch to fill. Other lanes are goroutines that live while there is work.
type batcher struct {
	// send decides a batch and sets every call's results or error. The context bounds it; it is
	// true where Redis answered, so that a connection is ready for the next batch.
	send func(ctx context.Context, calls []*call) bool

	// uses are those of the store, which calls without a waiting caller keep open.
	uses *references

	timeout time.Duration // of the calls; 0: they are held for nothing

	mu        sync.Mutex
	waiting   []*call
	held      int // of them, those that no batch could take lately
	unsettled unsettled
	senders   senders
	ready     int         // connections that have answered and are not in use, as far as known
	late      *time.Timer // looks after calls that wait; nil before the first
	watched   bool        // the timer runs
}

// do has a call decided within the timeout. It returns nil when the call's err and results are
// valid; otherwise the call is gone.
func (b *batcher) do(ctx context.Context, c *call, timeout time.Duration) error {
	if b.tryInline(c) {
		b.sendAlone(c, timeout)
		return nil
	}
	if err := b.enqueue(c); err != nil {
		return err
	}
	return await(ctx, c, timeout)
}

// tryInline tells whether the caller is to send its call itself, as a lane of its own: nothing waits, a
// lane is free, and a connection is ready, so that it will not have to wait for one.
func (b *batcher) tryInline(c *call) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ready == 0 || len(b.waiting) > b.held || !b.senders.mayOpen(1) || b.unsettled.isFollowedBy(c) {
		return false
	}
	b.senders.open++
	b.ready--
	b.senders.depart(&c.inflight)
	return true
}

// sendAlone sends a call on the caller's goroutine. What has arrived meanwhile goes on without it.
func (b *batcher) sendAlone(c *call, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	c.markSent()
	answered := b.send(ctx, c.alone[:])
	b.mu.Lock()
	defer b.mu.Unlock()
	b.land(&c.inflight, answered)
	if len(b.waiting) > 0 && !b.senders.tooMany() {
		go b.sendLoop()
	} else {
		b.senders.open--
	}
}

// land ends a flight. Where there was no answer the other connections may be gone too, and connecting
// can take longer than a request waits: the next batches go by lanes, whose connecting outlasts it. The
// lock must be held.
func (b *batcher) land(f *inflight, answered bool) {
	b.senders.land(f)
	b.held = 0
	if answered {
		b.ready++
	} else {
		b.ready = 0
	}
}

// enqueue puts a call in line and starts a lane for it where one may.
func (b *batcher) enqueue(c *call) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) >= maxQueue || c.detached && len(b.waiting) >= maxQueue/2 {
		c.recycle()
		return errOverload
	}
	if c.detached && !c.retain(b.uses) {
		c.recycle()
		return errClosed
	}
	b.follow(c)
	if c.op.settles() {
		b.unsettled.add(c)
	}
	b.waiting = append(b.waiting, c)
	b.senders.giveUpOnLate()
	b.startSender()
	b.watch()
	return nil
}

// startSender starts a lane if there is work that the lanes there are will not take at once. The
// lock must be held.
func (b *batcher) startSender() {
	if len(b.waiting) > b.held && b.senders.mayOpen(len(b.waiting)) {
		b.senders.open++
		go b.sendLoop()
	}
}

// watch has calls that wait looked after when the batches ahead of them ought to be back. The lock
// must be held.
func (b *batcher) watch() {
	if b.watched {
		return
	}
	b.watched = true
	wait := b.senders.nextWake()
	if len(b.waiting) == b.held {
		wait = max(wait, stallSpan/4)
	}
	if b.late == nil {
		b.late = time.AfterFunc(wait, b.checkStalled)
	} else {
		b.late.Reset(wait)
	}
}

// checkStalled goes on without batches that do not come back.
func (b *batcher) checkStalled() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watched, b.held = false, 0
	if len(b.waiting) == 0 {
		return
	}
	b.senders.giveUpOnLate()
	b.startSender()
	b.watch()
}

// sendLoop sends batches until nothing waits.
func (b *batcher) sendLoop() {
	var calls []*call
	var f inflight
	for {
		calls = b.next(calls[:0], &f)
		if len(calls) == 0 {
			return
		}
		answered := b.send(context.Background(), calls) // the client's own timeouts bound it
		b.mu.Lock()
		b.land(&f, answered)
		calls = b.settle(calls)
		b.mu.Unlock()
		for i, c := range calls {
			c.answer()
			calls[i] = nil
		}
	}
}

// next takes the calls of a batch from the queue and begins its flight. Where there are none, or
// the others manage without it, the lane is over.
func (b *batcher) next(calls []*call, f *inflight) []*call {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.senders.tooMany() || b.senders.tooSoon(len(b.waiting)) {
		b.senders.open--
		b.startSender()
		return calls
	}
	calls = b.fill(calls)
	if len(calls) == 0 {
		b.senders.open--
		return calls
	}
	b.ready = max(0, b.ready-1)
	b.senders.depart(f)
	b.startSender()
	return calls
}

// fill takes the calls of a batch from the queue. The lock must be held.
func (b *batcher) fill(calls []*call) []*call {
	b.unsettled.batch++
	b.held = 0
	var l load
	kept, settling := 0, 0
	for i, c := range b.waiting {
		if l.isFull(c) {
			kept += copy(b.waiting[kept:], b.waiting[i:])
			break
		}
		held := b.holds(c)
		if held {
			b.held++
		}
		switch {
		case held || c.refundsLog() && l.logRefunds >= maxLogRefunds:
			b.waiting[kept] = c
			kept++
		case !c.markSent():
			c.recycle()
		default:
			l.add(c)
			calls = append(calls, c)
			if c.op.settles() {
				settling++
				b.unsettled.putInBatch(c)
			}
		}
	}
	clear(b.waiting[kept:])
	b.waiting = b.waiting[:kept]
	if settling > 0 && settling < len(calls) {
		settlementsFirst(calls)
	}
	return calls
}
