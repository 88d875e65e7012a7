package redis

import (
	"sync"
	"sync/atomic"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
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
var callPool = sync.Pool{New: func() any { return new(Call) }}

// Call is a payload on its way through a batch. Exactly one side recycles it: the caller that got
// the answer or the error; the sender that finds it in the queue or has its answer, where the caller
// has left or there is none; or the code that refuses to queue it.
type Call struct {
	Payload
	Alone    [1]*Call          // itself, for a batch of one
	inflight inflight          // where it is sent alone
	detached bool              // no caller waits for it
	Done     func(Ended)       // runs when a call without a caller has ended; nil: nothing does
	uses     *clock.References // of a detached call, queued or in flight: keeps the store open

	heldUntil clock.Moment // waits for refunds and charges of its quotas until then; 0: for none

	state  atomic.Int32
	waiter *waiter // that waits for it in the queue or for its answer; nil: there is none
}

// NewCall makes a call of an operation on checks.
func NewCall(op Operation, checks []limiter.Check) *Call {
	c := callPool.Get().(*Call) //nolint:forcetypeassert,errcheck // the pool holds nothing else
	c.detached, c.Done, c.Alone[0] = false, nil, c
	c.state.Store(callQueued)
	c.Fill(op, checks)
	return c
}

// NewChange makes a call that changes what checks took, each by its change.
func NewChange(checks []limiter.Check, changes ...limiter.Change) *Call {
	c := NewCall(OpChange, checks)
	for i := range c.Changes {
		c.Changes[i].Change = changes[i]
	}
	return c
}

// NewRepayment makes a call that adds debts of an outage to one quota.
func NewRepayment(p *limiter.Policy, key limiter.EncodedKey, debts []kernel.Debt) *Call {
	checks := make([]limiter.Check, len(debts))
	for i := range checks {
		checks[i] = limiter.Check{Policy: p, Key: key}
	}
	c := NewCall(OpChange|Owed, checks)
	for i := range c.Changes {
		c.Changes[i].Debt = debts[i]
	}
	return c
}

// NewTakeAhead makes a call that gives units of an earlier lease back, decides a check, and takes units ahead.
func NewTakeAhead(check *limiter.Check, wish kernel.Wish, rest int64, of kernel.Receipt) *Call {
	c := NewCall(OpTake|Ahead, []limiter.Check{*check})
	c.Changes = append(c.Changes, Change{Change: limiter.Change{Units: -rest}, Receipt: of})
	c.Lease.Wish = wish
	return c
}

// Recycle ends the call, which must not be used afterwards. It keeps no reference to the owner's
// data.
func (c *Call) Recycle() {
	clear(c.Checks)
	uses := c.uses
	c.Err, c.Done, c.uses, c.waiter, c.heldUntil = nil, nil, nil, nil, 0
	callPool.Put(c)
	if uses != nil {
		uses.Release()
	}
}

// retain keeps a store open until the call is recycled. It returns false where the store is closed.
func (c *Call) retain(uses *clock.References) bool {
	if uses == nil || !uses.Acquire() {
		return uses == nil
	}
	c.uses = uses
	return true
}

// Ended is a call in the background that has ended. Its payload is given out by what became of the call: Answer gives the
// payload that Redis answered, Unsent one that can be sent again.
type Ended struct{ call *Call }

// Err returns why Redis did not do what the call asks for; nil: it did.
func (e Ended) Err() error {
	if e.call.IsPostponed() {
		return limiter.ErrOverload // the queue had no room for another try
	}
	return e.call.Err
}

// Answer returns the payload that Redis has answered; nil: Redis did not do what it asks for.
func (e Ended) Answer() *Payload {
	if e.Err() != nil {
		return nil
	}
	return &e.call.Payload
}

// Unsent returns the payload only if Redis certainly did not run it. After a timeout Redis may have run it, so there is
// nothing to retry.
func (e Ended) Unsent() *Payload {
	if err := e.Err(); err == nil || MayHaveRun(err) {
		return nil
	}
	return &e.call.Payload
}

// Check returns the first check, as the answer has left it, if there was one.
func (e Ended) Check() *limiter.Check { return &e.call.Checks[0] }

// MarkSent marks the call as sent, unless its caller has left.
func (c *Call) MarkSent() bool { return c.state.CompareAndSwap(callQueued, callSent) }

// detach marks the call as one that no caller waits for. The callback runs when the call has ended.
func (c *Call) detach(done func(Ended)) { c.detached, c.Done = true, done }

// end ends a detached call that was not queued, for the given reason.
func (c *Call) end(err error) {
	c.Err = err
	c.Done(Ended{c})
	c.Recycle()
}

// answer wakes the caller, or recycles the call where there is none.
func (c *Call) answer() {
	if w := c.waiter; w != nil && c.state.CompareAndSwap(callSent, callAnswered) {
		if c.Op&WithReceipt != 0 {
			c.BeginReservations()
		}
		w.woken <- nil
		return
	}
	if c.Done != nil {
		c.Done(Ended{c})
	}
	c.Recycle()
}

// abandon gives the call up, and reports whether the call was sent. A call whose answer has come meanwhile is not
// abandoned. The lock of its batcher must be held, so that the call stays queued or sent.
func (c *Call) abandon() (abandoned, sent bool) {
	sent = !c.state.CompareAndSwap(callQueued, callLeft)
	if sent && !c.state.CompareAndSwap(callSent, callLeft) {
		return false, true
	}
	c.waiter = nil
	return true, sent
}
