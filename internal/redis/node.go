package redis

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Node is one Redis that decides: the only one, or a Cluster's master of some slots. Each has its
// own batches and its own breaker, so that a slow or failing node delays no request of another.
type Node struct {
	Client  goredis.UniversalClient
	Batcher batcher
	Breaker Breaker
	Clock   clock.Offset
	Failed  func()                  // called after every failure
	Probes  clock.Task              // while the breaker is open
	Lost    func(err error)         // called for what Redis did not settle; may be nil
	Cause   atomic.Pointer[attempt] // what failed when the breaker opened, and why it fails now
	renewal *renewal                // nil where the connections stay
	life    context.Context         //nolint:containedctx // ends with the node; its probes run in it
	end     context.CancelFunc
}

// decideChecks decides checks by one call of an operation. An error leaves them as they are.
func (n *Node) decideChecks(ctx context.Context, op Operation, slot uint16, checks []limiter.Check, timeout time.Duration) error {
	c := NewCall(op, checks)
	c.Slot = slot
	if err := n.Decide(ctx, c, checks, timeout); err != nil {
		return err
	}
	copy(checks, c.Checks)
	c.Recycle()
	return nil
}

// Decide decides a call of some checks. After nil its results are valid and the caller recycles it;
// after an error it is gone.
func (n *Node) Decide(ctx context.Context, c *Call, checks []limiter.Check, timeout time.Duration) error {
	if n.Breaker.state.Load() == breakerOpen {
		c.Recycle()
		return limiter.ErrOutage
	}
	op, slot, sent := c.Op, c.Slot, clock.Now()
	err := n.Batcher.Do(ctx, c, timeout)
	if err == nil && c.Err == nil {
		n.Breaker.Success(sent)
		return nil
	}
	err = n.undecided(ctx, c, err)
	n.Report(op, slot, checks, sent, err)
	return err
}

// Refund undoes a refundable take in the background. A take of a policy with leases is undone by giving units back, which leaves
// what other nodes have leased.
func (n *Node) Refund(slot uint16, checks []limiter.Check) {
	plain, changes := make([]limiter.Check, 0, len(checks)), make([]limiter.Change, 0, len(checks))
	for i := range checks {
		c := &checks[i]
		if c.Look {
			continue
		}
		if c.Policy.Settings.Lease == 0 {
			plain, changes = append(plain, *c), append(changes, limiter.Change{Units: -limiter.Units(c)})
			continue
		}
		if limiter.Units(c) > 0 {
			back := NewTakeAhead(&limiter.Check{Policy: c.Policy, Key: c.Key, Peek: true}, kernel.Wish{}, limiter.Units(c), c.State.Receipt)
			back.Slot = slot
			n.Background(back, n.reportLoss)
		}
	}
	if len(plain) > 0 {
		c := NewChange(plain, changes...)
		c.Slot = slot
		n.Background(c, n.reportLoss)
	}
}

// reportLoss ends an operation whose outcome changes nothing else.
func (n *Node) reportLoss(e Ended) {
	if err := e.Err(); err != nil {
		n.Lose(err)
	}
}

// Background queues a call that no request waits for. The callback runs with its outcome, at once where it cannot be
// queued; it must not block nor keep what it gets. The outcome is reported as that of any other call.
func (n *Node) Background(c *Call, done func(Ended)) {
	if n.Breaker.Open() {
		c.detach(done)
		c.end(limiter.ErrOutage)
		return
	}
	op, slot, sent := c.Permissions(), c.Slot, clock.Now()
	c.detach(func(e Ended) {
		n.Report(op, slot, c.Checks, sent, c.Err) // those that are left
		done(e)
	})
	if err := n.Batcher.enqueue(c); err != nil {
		c.end(err)
	}
}

// Decides reports whether requests may be sent to the node.
func (n *Node) Decides() bool { return n.Breaker.closed() }

// Lose reports an operation in the background that Redis did not do.
func (n *Node) Lose(err error) {
	if n.Lost != nil {
		n.Lost(err)
	}
}

// undecided recycles a call without a decision that the batcher has finished, and returns why there is none. The error
// is the batcher's, after which the call is gone already. The result is nil where the call has a decision.
func (n *Node) undecided(ctx context.Context, c *Call, err error) error {
	if err != nil || c.Err == nil {
		return err
	}
	err = c.Err
	c.Recycle()
	if ctx.Err() != nil {
		return ctx.Err() // the client has left
	}
	return err
}

// Report passes the outcome of an operation to the breaker. A request whose client went away says
// nothing about Redis, nor does one that failed alone.
func (n *Node) Report(op Operation, slot uint16, checks []limiter.Check, sent clock.Moment, err error) {
	switch {
	case err == nil:
		n.Breaker.Success(sent)
	case errors.Is(err, limiter.ErrUndecided) && !limiter.FailedAlone(err):
		if n.Breaker.Failure(err) {
			n.Cause.Store(attemptOf(op, slot, checks, err))
			n.Probes.Start(probeInterval)
		}
		n.Failed()
	}
}

// retire ends a node that is not used any more, and its probes. The outage of a node that has failed until now goes on
// with the one that takes its place, if that is new: only a decision of Redis ends an outage.
func (n *Node) retire(heir *Node) {
	n.end()
	if !n.Breaker.retire() {
		return
	}
	if heir == nil || !heir.Breaker.inherit() {
		n.Breaker.OnClose()
		return
	}
	heir.Cause.Store(cmp.Or(n.Cause.Load(), attemptNow()))
	heir.Probes.Start(0)
}

// finish passes the outcome of a message that was sent to its calls, and compares the clocks.
func (n *Node) finish(m *Message, err error) {
	m.Deliver(err)
	if m.RedisTime > 0 {
		n.Clock.Learn(m.Began, m.Ended, m.RedisTime)
	}
}
