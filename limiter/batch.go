package limiter

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxBatch is the most requests of one script run. It bounds how long a run keeps Redis from
	// serving others: about half a millisecond.
	maxBatch = 128

	// maxQueue is the most requests that wait for a lane; further ones are not decided.
	maxQueue = 16384

	// maxLanes is the most batches in flight that a long round trip is reason for.
	maxLanes = 16

	// maxStalled is the most batches in flight once some do not come back. Where one of twenty
	// takes 50 ms, ten are out at any time, and now and then twice as many.
	maxStalled = 48

	// laneSpan is the part of the round trip that one more lane is worth. On a link without delay
	// there is one: with two, batches are half as large, and cost more than they save.
	laneSpan = time.Millisecond

	// stallSpan, and two round trips, is how long a batch may be in flight before those that wait
	// for it go without it.
	stallSpan = time.Millisecond
)

// batcher sends calls in batches: those that arrive while all lanes are busy travel together in
// the next one. A lone call goes at once, sent by its own goroutine where a connection is ready.
// Nothing waits for a batch to fill. Other lanes are goroutines that live while there is work.
type batcher struct {
	// send decides a batch and sets every call's results or error. The context bounds it; it is
	// true where Redis answered, so that a connection is ready for the next batch.
	send func(ctx context.Context, calls []*call) bool

	mu      sync.Mutex
	waiting []*call
	lanes   int
	ready   int         // connections that have answered and are not in use
	sent    time.Time   // when the last batch went
	stall   *time.Timer // looks after calls that wait; nil before the first
	watched bool        // the timer runs

	roundTrip atomic.Int64 // nanoseconds, a slowly forgotten minimum
}

// do has a call decided within the timeout. It returns nil when the call's err and results are
// valid; otherwise the call is gone.
func (b *batcher) do(ctx context.Context, c *call, timeout time.Duration) error {
	if b.lead() {
		b.sendAlone(c, timeout)
		return nil
	}
	if err := b.enqueue(c); err != nil {
		return err
	}
	return await(ctx, c, timeout)
}

// lead tells whether the caller is to send its call itself, as a lane of its own: nothing waits, a
// lane is free, and a connection is ready, so that it will not have to wait for one.
func (b *batcher) lead() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ready == 0 || len(b.waiting) > 0 || b.lanes >= b.allowedLanes() {
		return false
	}
	b.lanes++
	b.ready--
	b.sent = time.Now()
	return true
}

// sendAlone sends a call on the caller's goroutine. What has arrived meanwhile goes on without it.
func (b *batcher) sendAlone(c *call, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	c.send()
	b.sendTimed(ctx, c.alone[:])
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) > 0 {
		go b.lane()
	} else {
		b.lanes--
	}
}

// sendTimed sends a batch and learns from it.
func (b *batcher) sendTimed(ctx context.Context, calls []*call) {
	start := time.Now()
	answered := b.send(ctx, calls)
	b.observe(time.Since(start))
	if answered {
		b.mu.Lock()
		b.ready++
		b.mu.Unlock()
	}
}

// await waits for the answer to a call that was enqueued.
func await(ctx context.Context, c *call, timeout time.Duration) error {
	c.timer.Reset(timeout)
	defer c.timer.Stop()
	var reason error
	select {
	case <-c.answered:
		return nil
	case <-c.timer.C:
		reason = errTimeout
	case <-ctx.Done():
		reason = ctx.Err()
	}
	if c.leave() {
		return reason
	}
	<-c.answered
	return nil
}

// enqueue puts a call in line and starts a lane for it where one may.
func (b *batcher) enqueue(c *call) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) >= maxQueue {
		c.recycle()
		return errOverload
	}
	b.waiting = append(b.waiting, c)
	b.startLane()
	b.watch()
	return nil
}

// watch looks again after the span of a stall. The lock must be held.
func (b *batcher) watch() {
	switch {
	case b.watched:
		return
	case b.stall == nil:
		b.stall = time.AfterFunc(b.stallSpan(), b.relieve)
	default:
		b.stall.Reset(b.stallSpan())
	}
	b.watched = true
}

// relieve starts a further lane for calls that wait behind batches that do not come back.
func (b *batcher) relieve() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watched = false
	if len(b.waiting) == 0 {
		return
	}
	if b.stalls() && b.lanes < maxStalled {
		b.lanes++
		go b.lane()
	}
	b.watch()
}

// stalls tells whether no batch has gone for the span of a stall. The lock must be held.
func (b *batcher) stalls() bool { return time.Since(b.sent) >= b.stallSpan() }

func (b *batcher) stallSpan() time.Duration {
	return stallSpan + 2*time.Duration(b.roundTrip.Load())
}

// startLane starts a lane if there is work that the lanes there are will not take at once. The
// lock must be held.
func (b *batcher) startLane() {
	if len(b.waiting) > 0 && b.lanes < b.allowedLanes() {
		b.lanes++
		go b.lane()
	}
}

// allowedLanes adapts the number of batches in flight to the round trip: on a link of 20 ms, two
// batches of 128 would cap at 12,800 requests a second.
func (b *batcher) allowedLanes() int {
	return min(maxLanes, 1+int(time.Duration(b.roundTrip.Load())/laneSpan))
}

// lane sends batches until nothing waits.
func (b *batcher) lane() {
	var calls []*call
	for {
		calls = b.next(calls[:0])
		if len(calls) == 0 {
			return
		}
		b.sendTimed(context.Background(), calls) // the client's own timeouts bound it
		for i, c := range calls {
			c.answer()
			calls[i] = nil
		}
	}
}

// next takes the calls of a batch from the queue. Where there are none, or the others manage
// without it, the lane is over.
func (b *batcher) next(calls []*call) []*call {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lanes > b.allowedLanes() && !b.stalls() {
		b.lanes--
		return calls
	}
	taken := 0
	for taken < len(b.waiting) && len(calls) < maxBatch {
		if c := b.waiting[taken]; c.send() {
			calls = append(calls, c)
		} else {
			c.recycle()
		}
		taken++
	}
	rest := copy(b.waiting, b.waiting[taken:])
	clear(b.waiting[rest:])
	b.waiting = b.waiting[:rest]
	if len(calls) == 0 {
		b.lanes--
	} else {
		b.ready = max(0, b.ready-1)
		b.sent = time.Now()
		b.startLane()
	}
	return calls
}

// observe keeps the shortest round trip of late: what the link takes when nothing queues.
func (b *batcher) observe(took time.Duration) {
	const forgetting = 64
	shortest := b.roundTrip.Load()
	if n := int64(took); shortest == 0 || n < shortest {
		b.roundTrip.Store(n)
	} else {
		b.roundTrip.Store(shortest + (n-shortest)/forgetting)
	}
}
