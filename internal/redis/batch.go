package redis

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// MaxQueue is the most requests that wait for a sender; further ones are not decided. Operations in the
// background may fill half of it.
const MaxQueue = 16384

// maxBatch is the most checks of one script run, unless a single request has more. It bounds how long a run
// keeps Redis from serving others: about half a millisecond.
const maxBatch = 128

// batcher sends calls in batches: those that arrive while all senders are busy leave together in the
// next one. A lone call leaves at once, sent by its own goroutine where a connection is ready.
// Nothing waits for a batch to fill, but in a crowd a sender lets the goroutines run first that can: they
// need the processor in any case, and their calls leave with the batch. Other senders are goroutines that
// live while there is work.
type batcher struct {
	// Send decides a batch and sets every call's results or error. The context bounds it. It returns
	// true where Redis answered, so that a connection is ready for the next batch.
	Send func(ctx context.Context, calls []*Call) bool

	// Uses are the store's references, which calls in the background hold.
	Uses *clock.References

	// OnRefused is called after each batch that returned to the queue because Redis refuses new
	// connections; may be nil.
	OnRefused func(err error)

	Timeout time.Duration // of the calls; 0: no call is held

	Mu        sync.Mutex
	Waiting   []*Call
	held      int          // of them, those that the last batch had to leave
	heldUntil clock.Moment // when the first of these may leave in any case
	Unsettled unsettled
	Senders   senders
	ready     int          // connections that have answered and are idle, an estimate
	crowded   atomic.Bool  // the last batch of a sender held several calls
	answered  clock.Moment // when the last batch was
	stalls    clock.Task   // runs checkStalled
	expiry    clock.Task   // runs expire
	expired   clock.Moment // when it ran last
}

// Do decides a call within the timeout. It returns nil when the call's err and results are valid;
// otherwise the call is gone.
func (b *batcher) Do(ctx context.Context, c *Call, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	sent, queued := b.sendAlone(ctx, c, deadline)
	switch {
	case queued != nil:
		return queued.wait()
	case sent:
		return nil
	}
	w := c.awaitedBy(ctx, clock.MomentOf(deadline))
	if err := b.enqueue(c); err != nil {
		w.recycle()
		c.Recycle()
		return err
	}
	return w.wait()
}

// sendAlone sends a call on the caller's goroutine, as a sender of its own, and reports whether it was sent: if nothing
// waits, a sender is free, and a connection is ready, so that the call will not wait for one. In a crowd a sender
// takes others along. Calls that arrive meanwhile get a sender of their own. It returns a waiter where the call has
// returned to the queue.
func (b *batcher) sendAlone(ctx context.Context, c *Call, deadline time.Time) (sent bool, queued *waiter) {
	b.Mu.Lock()
	if b.ready == 0 || b.crowded.Load() || len(b.Waiting) > b.held || !b.Senders.mayOpen(1) ||
		len(b.Unsettled.Quotas) > 0 && b.Unsettled.isFollowedBy(c) {
		b.Mu.Unlock()
		return false, nil
	}
	b.Senders.Open++
	b.ready--
	l, until := &lone{context.Background(), deadline, make(chan struct{})}, clock.MomentOf(deadline)
	c.inflight.alone = l
	b.Senders.begin(&c.inflight)
	b.expireBy(until)
	b.Mu.Unlock()

	c.state.Store(callSent)
	answered := b.Send(l, c.Alone[:])

	b.Mu.Lock()
	b.finish(&c.inflight, answered)
	refusal := error(nil)
	if !answered {
		_, refusal = b.putBack([]*Call{c}, c.inflight.sent)
	}
	if refusal != nil {
		queued = c.awaitedBy(ctx, until)
		b.expireBy(queued.until)
	} else if c.Op&WithReceipt != 0 {
		c.BeginReservations()
	}
	if len(b.Waiting) > 0 && !b.Senders.tooMany() {
		go b.sendLoop()
	} else {
		b.Senders.Open--
	}
	b.Mu.Unlock()
	if refusal != nil && b.OnRefused != nil {
		b.OnRefused(refusal)
	}
	return true, queued
}

// finish ends a batch in flight, and observes how long it took. Without an answer the other connections may be gone too,
// and connecting can take longer than a request waits: the next batches leave by senders, which may wait longer. The
// lock must be held.
func (b *batcher) finish(f *inflight, answered bool) {
	now := clock.Now()
	b.Senders.end(f, now, answered)
	b.held = 0
	if answered {
		b.ready++
		b.answered = now
	} else {
		b.ready = 0
	}
}

// peak returns how many batches were in flight at once at most, of those that were not late: as many connections are used.
func (b *batcher) peak() int {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	return b.Senders.Peak
}

// enqueue queues a call and starts a sender for it where one is allowed. After an error the call is still the caller's.
func (b *batcher) enqueue(c *Call) error {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	if len(b.Waiting) >= MaxQueue || c.detached && len(b.Waiting) >= MaxQueue/2 {
		return limiter.ErrOverload
	}
	if c.detached && !c.retain(b.Uses) {
		return limiter.ErrClosed
	}
	b.follow(c)
	if c.IsBackground() {
		b.Unsettled.add(c)
	}
	b.Waiting = append(b.Waiting, c)
	if c.waiter != nil {
		b.expireBy(c.waiter.until)
	}
	b.Senders.skipStalled()
	b.startSender()
	if !b.stalls.IsSet() || b.held > 0 {
		b.watch()
	}
	return nil
}

// park queues a call without starting a sender for it. After an error the call is still the caller's.
func (b *batcher) park(c *Call) error {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	if len(b.Waiting) >= MaxQueue {
		return limiter.ErrOverload
	}
	b.follow(c)
	b.Waiting = append(b.Waiting, c)
	b.expireBy(c.waiter.until)
	return nil
}

// sendParked starts a sender if calls wait that no sender will take at once.
func (b *batcher) sendParked() {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	if len(b.Waiting) == 0 {
		return
	}
	b.Senders.skipStalled()
	b.startSender()
	if !b.stalls.IsSet() || b.held > 0 {
		b.watch()
	}
}

// startSender starts a sender if there is work that the running senders will not take at once. The
// lock must be held.
func (b *batcher) startSender() {
	if len(b.Waiting) > b.held && b.Senders.mayOpen(len(b.Waiting)) {
		b.Senders.Open++
		go b.sendLoop()
	}
}

// watch has checkStalled run when waiting calls may leave by themselves: when a sender may open for them
// that may not now, or for held calls when they have been held long enough. The lock must be held.
func (b *batcher) watch() {
	if b.stalls.Run == nil {
		b.stalls.Run = b.checkStalled
	}
	now := clock.Now()
	at := now.Add(b.Senders.nextWake())
	if b.held > 0 && (len(b.Waiting) == b.held || b.heldUntil < at) {
		at = b.heldUntil
	}
	b.stalls.StartBy(at, now)
}

// checkStalled stops counting batches that do not come back, so that waiting calls leave without
// them, and releases calls that were held long enough.
func (b *batcher) checkStalled() {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	if len(b.Waiting) == 0 {
		return
	}
	if clock.Now() >= b.heldUntil {
		b.held = 0
	}
	b.Senders.skipStalled()
	b.startSender()
	b.watch()
}

// sendLoop sends batches until nothing waits.
func (b *batcher) sendLoop() {
	var calls []*Call
	var f inflight
	for {
		if b.crowded.Load() {
			runtime.Gosched()
		}
		calls = b.next(calls[:0], &f)
		if len(calls) == 0 {
			return
		}
		answered := b.Send(context.Background(), calls) // bounded by the client's own timeouts
		b.Mu.Lock()
		b.finish(&f, answered)
		refusal := error(nil)
		if !answered {
			calls, refusal = b.putBack(calls, f.sent)
		}
		calls = b.finishBackground(calls)
		b.Mu.Unlock()
		if refusal != nil && b.OnRefused != nil {
			b.OnRefused(refusal) // the batch has returned to the queue
		}
		for i, c := range calls {
			c.answer()
			calls[i] = nil
		}
	}
}

// next takes the calls of a batch from the queue and marks the batch as in flight. Without calls the
// sender ends: none wait, or the other senders are enough.
func (b *batcher) next(calls []*Call, f *inflight) []*Call {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	if !b.Senders.tooMany() && !b.Senders.tooSoon(len(b.Waiting)) {
		calls = b.fill(calls)
	}
	if len(calls) > 0 {
		b.crowded.Store(len(calls) > 1)
		b.ready = max(0, b.ready-1)
		f.calls = calls
		b.Senders.begin(f)
	} else {
		b.Senders.Open--
	}
	b.startSender()
	if b.held > 0 || len(calls) == 0 && len(b.Waiting) > 0 {
		b.watch()
	}
	return calls
}

// fill takes the calls of a batch from the queue. The lock must be held.
func (b *batcher) fill(calls []*Call) []*Call {
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
func (l *load) isFull(c *Call) bool { return l.checks > 0 && l.checks+len(c.Checks) > maxBatch }

// add counts a call.
func (l *load) add(c *Call) {
	l.checks += len(c.Checks)
	if c.refundsLog() {
		l.logRefunds++
	}
}

// refundsLog reports whether a call may rewrite a long log.
func (c *Call) refundsLog() bool {
	if c.Op&Ahead != 0 {
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
