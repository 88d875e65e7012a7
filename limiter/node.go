package limiter

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
)

// node is one Redis that decides: the only one, or a Cluster's master of some slots. Each has its
// own batches and its own breaker, so that a slow or failing node delays no request of another.
type node struct {
	client  goredis.UniversalClient
	batcher batcher
	breaker breaker
	clock   clock.Offset
	failed  func()                  // called after every failure
	opened  func()                  // called after the breaker has opened
	lost    func(err error)         // called for what Redis did not settle; may be nil
	cause   atomic.Pointer[attempt] // what failed when the breaker opened, and why it fails now
	life    context.Context         //nolint:containedctx // ends with the node; its probes run in it
	end     context.CancelFunc
}

// decide decides a call of some checks. After nil its results are valid and the caller recycles it;
// after an error it is gone.
func (n *node) decide(ctx context.Context, c *call, checks []Check, timeout time.Duration) error {
	if n.breaker.open() {
		c.recycle()
		return ErrOutage
	}
	op, slot, sent := c.op, c.slot, clock.Now()
	err := n.outcome(ctx, c, n.batcher.do(ctx, c, timeout))
	n.report(op, slot, checks, sent, err)
	return err
}

// refund undoes a refundable take in the background. Refunds of takes do not reckon with leases of others; giving back
// does.
func (n *node) refund(slot uint16, checks []Check) {
	plain := make([]Check, 0, len(checks))
	for i := range checks {
		c := &checks[i]
		if c.Policy.Settings().Lease == 0 {
			back := *c
			keptOf(&back).Change, keptOf(&back).Stays = -unitsOf(c), 0
			plain = append(plain, back)
			continue
		}
		if unitsOf(c) > 0 {
			back := newLeaseCall(&Check{Policy: c.Policy, Key: c.Key, Peek: true}, kernel.Wish{}, unitsOf(c), keptOf(c).Receipt)
			back.slot = slot
			n.enqueue(back, nil)
		}
	}
	if len(plain) > 0 {
		c := newCall(opSettle, plain)
		c.slot = slot
		n.enqueue(c, nil)
	}
}

// enqueue queues a call that no request waits for. Losses are reported. The callback runs after success; it must
// not block nor keep the call.
func (n *node) enqueue(c *call, answered func(*call)) {
	op := c.op
	err := n.background(c, func(c *call) {
		switch {
		case c.err != nil:
			n.lose(op, c.err)
		case c.isPostponed():
			n.lose(op, errOverload) // the queue had no room for another try
		case answered != nil:
			answered(c)
		}
	})
	if err != nil {
		n.lose(op, err)
	}
}

// background queues a call that no request waits for. An error says why it was not queued; the call is
// gone then. Its outcome is reported as that of any other call. The callback runs with the outcome; it
// must not block nor keep the call.
func (n *node) background(c *call, done func(*call)) error {
	if n.breaker.open() {
		c.recycle()
		return ErrOutage
	}
	op, slot, sent := c.op, c.slot, clock.Now()
	c.detach(func() {
		n.report(op, slot, c.checks, sent, c.err) // those that are left
		done(c)
	})
	err := n.batcher.enqueue(c)
	if err != nil {
		n.report(op, slot, nil, sent, err) // the checks are gone with the call
	}
	return err
}

// decides reports whether requests may be sent to the node.
func (n *node) decides() bool { return n.breaker.closed() }

// lose reports an operation in the background that Redis did not do. A peek without an answer is no loss.
func (n *node) lose(op operation, err error) {
	if n.lost != nil && op.isBackground() {
		n.lost(err)
	}
}

// outcome ends a call that the batcher has finished: without a decision it is gone.
func (n *node) outcome(ctx context.Context, c *call, err error) error {
	if err != nil || c.err == nil {
		return err
	}
	err = c.err
	c.recycle()
	if ctx.Err() != nil {
		return ctx.Err() // the client has left
	}
	return err
}

// report passes the outcome of an operation to the breaker. A request whose client went away says
// nothing about Redis, nor does one that failed alone.
func (n *node) report(op operation, slot uint16, checks []Check, sent clock.Moment, err error) {
	switch {
	case err == nil:
		n.breaker.success(sent)
	case errors.Is(err, ErrUndecided) && !FailedAlone(err):
		if n.breaker.failure(err) {
			n.cause.Store(attemptOf(op, slot, checks, err))
			n.opened()
		}
		n.failed()
	}
}

// retire ends a node that is not used any more, and its probes.
func (n *node) retire() {
	n.breaker.retire()
	n.end()
}

// finish passes the outcome of a message that was sent to its calls, and compares the clocks.
func (n *node) finish(m *message, err error) {
	m.deliver(err)
	if m.redisTime > 0 {
		n.clock.Learn(m.began, m.ended, m.redisTime)
	}
}
