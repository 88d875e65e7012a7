package limiter

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// call is one request on its way through a batch. Exactly one side recycles it: the caller that got
// the answer or the error; the sender that finds it in the queue or has its answer, where the caller
// has left or there is none; or the code that refuses to queue it.
type call struct {
	op       operation
	checks   []Check
	receipts []receipt
	err      error
	alone    [1]*call    // itself, for a batch of one
	inflight inflight    // where it is sent alone
	slot     uint16      // of a Cluster
	detached bool        // no caller waits for it
	done     func()      // of a detached call: runs when it is answered; may be nil
	uses     *references // of a detached call, queued or in flight: keeps the store open

	heldUntil time.Time // waits for refunds and charges of its quotas until then; zero: for none

	state    atomic.Int32
	answered chan struct{} // of capacity 1
}

// The life of a call. queued -> sent -> answered; from queued and sent the caller may leave it. A
// call that Redis did not let in is queued again.
const (
	callQueued int32 = iota
	callSent
	callAnswered
	callLeft
)

// The package's mutable state is these two pools alone. They belong to the process and not to a store,
// because requests of all stores use the same calls and timers, and a store that is replaced should
// leave nothing to build up again.
var (
	callPool = sync.Pool{New: func() any {
		return &call{answered: make(chan struct{}, 1)}
	}}

	// timerPool holds stopped timers. A timer belongs to its waiter and not to its call, which may have
	// another owner as soon as the waiter has left it.
	timerPool = sync.Pool{New: func() any {
		timer := time.NewTimer(time.Hour)
		timer.Stop()
		return timer
	}}
)

// newCall copies the checks, for a refund with their receipts, so that the caller may leave at any time.
func newCall(op operation, checks []Check) *call {
	c := callPool.Get().(*call) //nolint:forcetypeassert,errcheck // the pool holds nothing else
	c.op, c.err, c.detached, c.done = op, nil, false, nil
	c.alone[0] = c
	c.checks = append(c.checks[:0], checks...)
	c.receipts = c.receipts[:0]
	if !op.decides() {
		for i := range checks {
			c.checks[i].Leave = 0 // makes no difference to the shape
			if op == opRefund || op == opSettle {
				c.receipts = append(c.receipts, checks[i].receipt)
			}
		}
	}
	c.state.Store(callQueued)
	return c
}

// recycle ends the call, which must not be used afterwards. It keeps no reference to the owner's
// data.
func (c *call) recycle() {
	clear(c.checks)
	uses := c.uses
	c.err, c.done, c.uses = nil, nil, nil
	callPool.Put(c)
	if uses != nil {
		uses.release()
	}
}

// retain keeps a store open until the call is recycled. It returns false where the store is closed.
func (c *call) retain(uses *references) bool {
	if uses == nil || !uses.acquire() {
		return uses == nil
	}
	c.uses = uses
	return true
}

// take copies the answers to the caller's checks, and recycles the call.
func (c *call) take(checks []Check) {
	copy(checks, c.checks)
	for i := range c.receipts {
		checks[i].receipt = c.receipts[i]
	}
	c.recycle()
}

// markSent marks the call as sent, unless its caller has left.
func (c *call) markSent() bool { return c.state.CompareAndSwap(callQueued, callSent) }

// detach marks the call as one that no caller waits for. The callback, unless it is nil, runs when
// the call is answered.
func (c *call) detach(done func()) { c.detached, c.done = true, done }

// answer wakes the caller, or recycles the call where there is none.
func (c *call) answer() {
	if !c.detached && c.state.CompareAndSwap(callSent, callAnswered) {
		c.answered <- struct{}{}
		return
	}
	if c.done != nil {
		c.done()
	}
	c.recycle()
}

// leave gives the call up, and reports whether it was sent. It is not left where the answer has come
// meanwhile. A call that was sent may return to the queue between the two tries.
func (c *call) leave() (left, sent bool) {
	for c.state.Load() != callAnswered {
		if c.state.CompareAndSwap(callQueued, callLeft) {
			return true, false
		}
		if c.state.CompareAndSwap(callSent, callLeft) {
			return true, true
		}
	}
	return false, true
}

// await waits for the answer to a call that was enqueued. After an error the call is gone.
func await(ctx context.Context, c *call, timeout time.Duration) error {
	timer := timerPool.Get().(*time.Timer) //nolint:forcetypeassert,errcheck // the pool holds nothing else
	timer.Reset(timeout)
	defer func() {
		timer.Stop() // leaves no value in its channel
		timerPool.Put(timer)
	}()
	reason := error(errTimeout)
	select {
	case <-c.answered:
		return nil
	case <-timer.C:
	case <-ctx.Done():
		reason = ctx.Err()
	}
	left, sent := c.leave()
	switch {
	case !left:
		<-c.answered
		return nil
	case !sent && ctx.Err() == nil:
		return errUnsent
	}
	return reason
}

// sameShape reports whether two calls differ in their keys alone.
func (c *call) sameShape(other *call) bool {
	if c.op != other.op || len(c.checks) != len(other.checks) {
		return false
	}
	for i := range c.checks {
		a, b := &c.checks[i], &other.checks[i]
		if a.Policy != b.Policy || a.units() != b.units() || a.Leave != b.Leave {
			return false
		}
	}
	return true
}
