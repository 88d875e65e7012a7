package limiter

import (
	"context"
	"errors"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
)

// This file sends the messages of running_record.go by the batches of all others.

// ErrLate is the error of a request whose messages came too late, twice.
var ErrLate = &UndecidedError{Kind: "other", Err: errors.New("redis has lost or overtaken what this process runs")}

// startRunning makes the store's tracker.
func (r *Redis) startRunning() {
	r.Running = NewRunningTracker()
	r.Running.Send = r.sendStatement
	r.Running.failed = func() bool { return r.Topology.cluster == nil && r.Topology.AnyNode.Breaker.Open() }
	r.Running.ended = func() bool { return r.Topology.Life.Err() != nil }
}

// decideAt decides checks of one slot on a node. A request that came too late is sent once more: it has
// done nothing.
func (r *Redis) decideAt(ctx context.Context, n *Node, slot uint16, checks []Check) error {
	if !countsRunning(checks) {
		return r.decideCall(ctx, n, slot, checks, r.Timeout)
	}
	deadline := time.Now().Add(r.Timeout)
	err := r.decideRunning(ctx, n, slot, checks, r.Timeout)
	if errors.Is(err, ErrLate) {
		if left := time.Until(deadline); left > 0 {
			err = r.decideRunning(ctx, n, slot, checks, left)
		}
	}
	return err
}

func (r *Redis) decideRunning(ctx context.Context, n *Node, slot uint16, checks []Check, timeout time.Duration) error {
	r.Running.Begin(checks)
	err := r.decideCall(ctx, n, slot, checks, timeout)
	return r.EndTakes(checks, err)
}

// EndTakes ends what begin began, after an answer or an error, which it returns. It returns errLate
// where a check came too late.
func (r *Redis) EndTakes(checks []Check, err error) error {
	outcome, late := OutcomeOf(err), false
	if err == nil && !Allowed(checks) {
		outcome = ranDenied
	}
	for i := range checks {
		c := &checks[i]
		m := runOf(c)
		if m == nil {
			continue
		}
		its := outcome
		if err == nil && (c.Result.RetryAfter == Superseded || c.Result.RetryAfter == Lost) {
			its, late = RanLate, true
		}
		if r.Running.end(*m, its); its == RanOK {
			KeptOf(c).Places = int32(m.Units)
			r.Uses.Acquire() // until it ends; the decision has one
		} else {
			KeptOf(c).Held = nil
		}
	}
	if late {
		return ErrLate
	}
	return err
}

// EndRunning ends a request as [failover.Store.EndRunning] does.
func (r *Redis) EndRunning(checks []Check) {
	for i := range checks {
		c := &checks[i]
		if m := runOf(c); m != nil {
			r.Running.release(*m)
			KeptOf(c).Held, KeptOf(c).Places = nil, 0
			r.Uses.Release()
		}
	}
}

// LetRun counts a request that runs without Redis's decision, so that Redis learns of it when it
// decides again.
func (r *Redis) LetRun(checks []Check) {
	if !countsRunning(checks) {
		return
	}
	now, t := r.Running.Now(), r.Running
	for i := range checks {
		c := &checks[i]
		if KeptOf(c).Places == 0 || !r.Uses.Acquire() {
			continue
		}
		s := t.ShardOf(c.Key.String())
		s.Mu.Lock()
		record := t.Find(c.Policy, c.Key.String(), now)
		t.LetThrough(record, int64(KeptOf(c).Places), now)
		KeptOf(c).Held = &Run{record: record, Units: int64(KeptOf(c).Places)}
		s.Mu.Unlock()
	}
}

// sendStatement sends a release or a state. Its failure counts for the breaker: streams may run for hours
// without a request that would show an outage.
func (r *Redis) sendStatement(s Statement) {
	record, m := s.Run.record, s.Run
	n, slot := r.NodeOf(AsEncoded(record.key))
	check := Check{Policy: record.policy, Key: AsEncoded(record.key), Weight: m.Units, Peek: m.Units == 0, Ticket: kernel.Keep(kernel.Kept{Receipt: s.Stamp})}
	c := NewCall(s.Op, []Check{check})
	c.Slot = slot
	err := n.Background(c, func(c *Call) {
		outcome := OutcomeOf(c.Err)
		if wait := c.Checks[0].Result.RetryAfter; outcome == RanOK && (wait == Superseded || wait == Lost) {
			outcome = RanLate
		}
		r.Running.Finish(m, outcome)
	})
	if err != nil {
		r.Running.Finish(m, ranNever)
	}
}
