package redis

import (
	"context"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Asked is checks that wait in the queue for the batch of the next request, until [Store.AnswerTo].
type Asked struct {
	call   *Call
	waiter *waiter
	op     Operation
	sent   clock.Moment
}

// Ask queues checks on a Redis without slots so that they leave in the batch of the next request, or at
// [Store.SendAsked]. After nil AnswerTo must follow.
func (r *Store) Ask(ctx context.Context, checks []limiter.Check) (Asked, error) {
	n := r.Topology.AnyNode
	if n.Breaker.Open() {
		return Asked{}, limiter.ErrOutage
	}
	if !r.Uses.Acquire() {
		return Asked{}, limiter.ErrClosed
	}
	op, countsRunning := takeOf(checks)
	if countsRunning {
		r.Running.Begin(checks, nil)
	}
	a := Asked{op: op, sent: clock.Now()}
	a.call = NewCall(a.op, checks)
	a.waiter = a.call.awaitedBy(ctx, a.sent.Add(r.Timeout))
	if err := n.Batcher.park(a.call); err != nil {
		a.waiter.recycle()
		a.call.Recycle()
		n.Report(a.op, 0, checks, a.sent, err)
		err = r.EndTakes(checks, err)
		r.Uses.Release()
		return Asked{}, err
	}
	return a, nil
}

// SendAsked has what was asked leave that no request has taken along.
func (r *Store) SendAsked() { r.Topology.AnyNode.Batcher.sendParked() }

// AnswerTo waits for the answer to checks, at most until the timeout after they were asked. Checks of running requests
// that came too late are decided once more.
func (r *Store) AnswerTo(ctx context.Context, a Asked, checks []limiter.Check) error {
	defer r.Uses.Release()
	n := r.Topology.AnyNode
	err := n.undecided(ctx, a.call, a.waiter.wait())
	if err == nil {
		copy(checks, a.call.Checks)
		a.call.Recycle()
	}
	n.Report(a.op, 0, checks, a.sent, err)
	err = r.EndTakes(checks, err)
	if left := a.sent.Add(r.Timeout).Since(clock.Now()); err == ErrLate && left > 0 { //nolint:errorlint // as EndTakes returns it
		err = r.tryRunning(ctx, n, a.op, 0, checks, nil, left)
	}
	return err
}
