package redis

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// This file sends the messages of the tracker by the batches of all others.

// ErrLate is the error of a request whose message came too late. The caller sends a message once more, and gives up at the
// second one.
var ErrLate = &limiter.UndecidedError{Kind: "other", Err: errors.New("redis has lost or overtaken what this process runs")}

// startRunning makes the store's tracker.
func (r *Store) startRunning() {
	r.Running = NewTracker()
	r.Running.Send = func(m Run) { r.sendState(m, func() {}) }
	r.Running.Failed = func() bool { return r.Topology.cluster == nil && r.Topology.AnyNode.Breaker.Open() }
}

// decideRunning decides checks of which some count running requests, by an operation on a node. A request that came too
// late is sent once more: it has done nothing. The turn is that of the only check, if its request waits. Such a request is
// not sent again where Redis has lost what this process runs: others have not told yet what they run.
func (r *Store) decideRunning(
	ctx context.Context, n *Node, op Operation, slot uint16, checks []limiter.Check, turn *kernel.Turn,
) error {
	deadline := time.Now().Add(r.Timeout)
	err := r.tryRunning(ctx, n, op, slot, checks, turn, r.Timeout)
	if left := time.Until(deadline); errors.Is(err, ErrLate) && left > 0 && (turn == nil || checks[0].State.Late != kernel.Lost) {
		err = r.tryRunning(ctx, n, op, slot, checks, turn, left)
	}
	return err
}

// tryRunning decides such checks once. The error is [ErrLate] if the request came too late.
func (r *Store) tryRunning(
	ctx context.Context, n *Node, op Operation, slot uint16, checks []limiter.Check, turn *kernel.Turn, timeout time.Duration,
) error {
	r.Running.Begin(checks, turn)
	return r.EndTakes(checks, n.decideChecks(ctx, op, slot, checks, timeout))
}

// EndTakes ends what Begin of the tracker began, after an answer or an error, which it returns. It returns [ErrLate]
// where a check came too late.
func (r *Store) EndTakes(checks []limiter.Check, err error) error {
	fate, late := FateOf(err), false
	if err == nil && !limiter.Allowed(checks) {
		fate = ranDenied
	}
	for i := range checks {
		c := &checks[i]
		m := RunOf(c)
		if m == nil {
			continue
		}
		its := fate
		if err == nil && c.State.Late != kernel.InTime {
			its, late = RanLate, true
		}
		if r.Running.end(*m, its); its == RanOK {
			c.State.RunningUnits = int32(m.Units)
			r.Uses.Acquire() // until it ends; the decision has one
		} else {
			c.State.Owner = nil
		}
	}
	if late {
		return ErrLate
	}
	return err
}

// EndRunning ends a request as failover.Store.EndRunning does.
func (r *Store) EndRunning(checks []limiter.Check) {
	for i := range checks {
		c := &checks[i]
		if m := RunOf(c); m != nil {
			r.Running.release(*m)
			c.State.Owner, c.State.RunningUnits = nil, 0
			r.Uses.Release()
		}
	}
}

// LetRun counts a request that runs without Redis's decision, so that Redis learns of that request when Redis decides
// again.
func (r *Store) LetRun(checks []limiter.Check) {
	t := r.Running
	for i := range checks {
		c := &checks[i]
		if c.State.RunningUnits == 0 || !r.Uses.Acquire() {
			continue
		}
		now, s := t.Now(), t.Shards.Of(c.Key.String())
		s.Mu.Lock()
		record := t.find(c.Policy, c.Key.String(), now)
		t.letThrough(record, int64(c.State.RunningUnits), now)
		c.State.Owner = &Run{Record: record, Units: int64(c.State.RunningUnits)}
		s.Mu.Unlock()
	}
}

// sendState sends what this process runs of a key, less the units of the message, which have ended. Its failure counts for the breaker: streams may run for hours
// without a request that would show an outage.
func (r *Store) sendState(m Run, ended func()) {
	record := m.Record
	n, slot := r.NodeOf(limiter.AsEncoded(record.Key))
	check := limiter.Check{Policy: record.Policy, Key: limiter.AsEncoded(record.Key), Weight: m.Units, Peek: m.Units == 0, State: limiter.CheckState{Owner: &m}}
	c := NewCall(OpState, []limiter.Check{check})
	c.Slot = slot
	n.Background(c, func(e Ended) {
		fate := FateOf(e.Err())
		if p := e.Answer(); p != nil && p.Checks[0].State.Late != kernel.InTime {
			fate = RanLate
		}
		r.Running.Finish(m, fate)
		ended()
	})
}

// ReleaseAllRunning gives back the units of all requests that run, before the process ends. It waits for Redis as Close
// does.
func (r *Store) ReleaseAllRunning() {
	var sent sync.WaitGroup
	for _, m := range r.Running.releaseAll() {
		sent.Add(1)
		r.sendState(m, sent.Done)
	}
	done := make(chan struct{})
	go func() {
		sent.Wait()
		close(done)
	}()
	r.awaitOrTimeout(done)
}
