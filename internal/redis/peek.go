package redis

import (
	"context"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Peek returns what a request of the check's weight would get, without charging it. Unlike decisions
// it is sent even while the breaker is open, to see whether Redis still fails.
func (r *Store) Peek(ctx context.Context, check *limiter.Check) error {
	if !r.hold() {
		return limiter.ErrClosed
	}
	defer r.Uses.Release()
	return r.peekBy(check, func(n *Node, c *Call, _ []limiter.Check) error {
		return n.undecided(ctx, c, n.Batcher.Do(ctx, c, r.Timeout))
	})
}

// PeekUnlessOpen peeks at a quota, unless the breaker of its node is open.
func (r *Store) PeekUnlessOpen(ctx context.Context, check *limiter.Check) error {
	if !r.Uses.Acquire() {
		return limiter.ErrClosed
	}
	defer r.Uses.Release()
	return r.peekBy(check, func(n *Node, c *Call, checks []limiter.Check) error {
		return n.Decide(ctx, c, checks, r.Timeout)
	})
}

// peekBy peeks at a quota by a function that sends the call.
func (r *Store) peekBy(check *limiter.Check, send func(n *Node, c *Call, checks []limiter.Check) error) error {
	n, slot := r.NodeOf(check.Key)
	checks := []limiter.Check{*check}
	c := NewCall(OpPeek, checks)
	c.Slot = slot
	if err := send(n, c, checks); err != nil {
		return err
	}
	limiter.CopyAnswer(check, &c.Checks[0])
	c.Recycle()
	return nil
}

// PeekAsync queries what a check would get, without charging it, in the background. The callback
// runs with the answer, if there is one; it must not block nor keep the check.
func (r *Store) PeekAsync(check *limiter.Check, answered func(*limiter.Check)) {
	if r.closed.Load() {
		return
	}
	n, slot := r.NodeOf(check.Key)
	c := NewCall(OpPeek, []limiter.Check{*check})
	c.Slot = slot
	n.Background(c, func(e Ended) {
		if p := e.Answer(); p != nil {
			answered(&p.Checks[0])
		}
	})
}
