package limiter

import (
	"sync"
)

// The life of a call. queued -> sent -> answered; from queued and sent the caller may leave it. A
// call that Redis did not let in is queued again.
const (
	callQueued int32 = iota
	callSent
	callAnswered
	callLeft
)

// The package's mutable state is this pool and that of waiters. They belong to the process and not to a store,
// because requests of all stores use the same calls and waiters, and a store that is replaced should leave
// nothing to build up again.
var callPool = sync.Pool{New: func() any { return new(call) }}

// retain keeps a store open until the call is recycled. It returns false where the store is closed.
func (c *call) retain(uses *references) bool {
	if uses == nil || !uses.acquire() {
		return uses == nil
	}
	c.uses = uses
	return true
}

// markSent marks the call as sent, unless its caller has left.
func (c *call) markSent() bool { return c.state.CompareAndSwap(callQueued, callSent) }

// detach marks the call as one that no caller waits for. The callback, unless it is nil, runs when
// the call is answered.
func (c *call) detach(done func()) { c.detached, c.done = true, done }

// answer wakes the caller, or recycles the call where there is none.
func (c *call) answer() {
	if w := c.waiter; w != nil && c.state.CompareAndSwap(callSent, callAnswered) {
		c.beginReservations()
		w.woken <- nil
		return
	}
	if c.done != nil {
		c.done()
	}
	c.recycle()
}

// leave gives the call up, and reports whether it was sent. It is not left where the answer has come
// meanwhile. The lock of its batcher must be held, so that it stays queued or sent.
func (c *call) leave() (left, sent bool) {
	sent = !c.state.CompareAndSwap(callQueued, callLeft)
	if sent && !c.state.CompareAndSwap(callSent, callLeft) {
		return false, true
	}
	c.waiter = nil
	return true, sent
}
