package limiter

import (
	"context"
	"time"
)

// Peek returns what a request of the check's weight would get, without charging it. Unlike decisions
// it is sent even while the breaker is open, to see whether Redis still fails.
func (r *Redis) Peek(ctx context.Context, check *Check) error {
	if !r.hold() {
		return errClosed
	}
	defer r.uses.release()
	return r.peekBy(check, func(n *node, c *call, _ []Check) error {
		return n.outcome(ctx, c, n.batcher.do(ctx, c, r.timeout))
	})
}

// peekUnlessOpen peeks at a quota, unless the breaker of its node is open.
func (r *Redis) peekUnlessOpen(ctx context.Context, check *Check) error {
	return r.peekWithin(ctx, check, r.timeout)
}

// peekWithin does so, and waits for so long at most.
func (r *Redis) peekWithin(ctx context.Context, check *Check, timeout time.Duration) error {
	if !r.uses.acquire() {
		return errClosed
	}
	defer r.uses.release()
	return r.peekBy(check, func(n *node, c *call, checks []Check) error {
		return n.decide(ctx, c, checks, timeout)
	})
}

// peekBy peeks at a quota by a function that sends the call.
func (r *Redis) peekBy(check *Check, send func(n *node, c *call, checks []Check) error) error {
	n, slot := r.nodeOf(check.Key)
	checks := []Check{*check}
	c := newCall(opPeek, checks)
	c.slot = slot
	if err := send(n, c, checks); err != nil {
		return err
	}
	c.take(checks)
	copyAnswer(check, &checks[0])
	return nil
}

// peekAsync queries what a check would get, without charging it, in the background. The callback
// runs with the answer, if there is one; it must not block nor keep the check.
func (r *Redis) peekAsync(check *Check, answered func(*Check)) {
	if r.closed.Load() {
		return
	}
	n, slot := r.nodeOf(check.Key)
	c := newCall(opPeek, []Check{*check})
	c.slot = slot
	n.enqueue(c, func(c *call) { answered(&c.checks[0]) })
}
