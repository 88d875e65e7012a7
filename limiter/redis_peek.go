package limiter

import (
	"context"
	"time"
)

// Peek returns what a request of the check's weight would get, without charging it. Unlike decisions
// it is sent even while the breaker is open, to see whether Redis still fails.
func (r *Redis) Peek(ctx context.Context, check *Check) error {
	if !r.hold() {
		return ErrClosed
	}
	defer r.Uses.Release()
	return r.peekBy(check, func(n *Node, c *Call, _ []Check) error {
		return n.outcome(ctx, c, n.Batcher.Do(ctx, c, r.Timeout))
	})
}

// PeekUnlessOpen peeks at a quota, unless the breaker of its node is open.
func (r *Redis) PeekUnlessOpen(ctx context.Context, check *Check) error {
	return r.PeekWithin(ctx, check, r.Timeout)
}

// PeekWithin does so, and waits for so long at most.
func (r *Redis) PeekWithin(ctx context.Context, check *Check, timeout time.Duration) error {
	if !r.Uses.Acquire() {
		return ErrClosed
	}
	defer r.Uses.Release()
	return r.peekBy(check, func(n *Node, c *Call, checks []Check) error {
		return n.Decide(ctx, c, checks, timeout)
	})
}

// peekBy peeks at a quota by a function that sends the call.
func (r *Redis) peekBy(check *Check, send func(n *Node, c *Call, checks []Check) error) error {
	n, slot := r.NodeOf(check.Key)
	checks := []Check{*check}
	c := NewCall(OpPeek, checks)
	c.Slot = slot
	if err := send(n, c, checks); err != nil {
		return err
	}
	c.take(checks)
	CopyAnswer(check, &checks[0])
	return nil
}

// PeekAsync queries what a check would get, without charging it, in the background. The callback
// runs with the answer, if there is one; it must not block nor keep the check.
func (r *Redis) PeekAsync(check *Check, answered func(*Check)) {
	if r.closed.Load() {
		return
	}
	n, slot := r.NodeOf(check.Key)
	c := NewCall(OpPeek, []Check{*check})
	c.Slot = slot
	n.enqueue(c, func(c *Call) { answered(&c.Checks[0]) })
}
