package limiter

import (
	"context"
	"errors"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
)

// This file sends the messages of running_record.go by the batches of all others.

// errLate is the error of a request whose messages came too late, twice.
var errLate = &UndecidedError{Kind: "other", Err: errors.New("redis has lost or overtaken what this process runs")}

// startRunning makes the store's tracker.
func (r *Redis) startRunning() {
	r.running = newRunningTracker()
	r.running.send = r.sendStatement
	r.running.failed = func() bool { return r.topology.cluster == nil && r.topology.anyNode.breaker.open() }
	r.running.ended = func() bool { return r.topology.life.Err() != nil }
}

// decideAt decides checks of one slot on a node. A request that came too late is sent once more: it has
// done nothing.
func (r *Redis) decideAt(ctx context.Context, n *node, slot uint16, checks []Check) error {
	if !countsRunning(checks) {
		return r.decideCall(ctx, n, slot, checks, r.timeout)
	}
	deadline := time.Now().Add(r.timeout)
	err := r.decideRunning(ctx, n, slot, checks, r.timeout)
	if errors.Is(err, errLate) {
		if left := time.Until(deadline); left > 0 {
			err = r.decideRunning(ctx, n, slot, checks, left)
		}
	}
	return err
}

func (r *Redis) decideRunning(ctx context.Context, n *node, slot uint16, checks []Check, timeout time.Duration) error {
	r.running.begin(checks)
	err := r.decideCall(ctx, n, slot, checks, timeout)
	return r.endTakes(checks, err)
}

// endTakes ends what begin began, after an answer or an error, which it returns. It returns errLate
// where a check came too late.
func (r *Redis) endTakes(checks []Check, err error) error {
	outcome, late := outcomeOf(err), false
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
		if err == nil && (c.Result.RetryAfter == superseded || c.Result.RetryAfter == lost) {
			its, late = ranLate, true
		}
		if r.running.end(*m, its); its == ranOK {
			keptOf(c).Places = int32(m.units)
			r.uses.acquire() // until it ends; the decision has one
		} else {
			keptOf(c).Held = nil
		}
	}
	if late {
		return errLate
	}
	return err
}

// EndRunning ends a request as [Failover.EndRunning] does.
func (r *Redis) EndRunning(checks []Check) {
	for i := range checks {
		c := &checks[i]
		if m := runOf(c); m != nil {
			r.running.release(*m)
			keptOf(c).Held, keptOf(c).Places = nil, 0
			r.uses.release()
		}
	}
}

// letRun counts a request that runs without Redis's decision, so that Redis learns of it when it
// decides again.
func (r *Redis) letRun(checks []Check) {
	if !countsRunning(checks) {
		return
	}
	now, t := r.running.now(), r.running
	for i := range checks {
		c := &checks[i]
		if keptOf(c).Places == 0 || !r.uses.acquire() {
			continue
		}
		s := t.shardOf(c.Key.String())
		s.mu.Lock()
		record := t.find(c.Policy, c.Key.String(), now)
		t.letThrough(record, int64(keptOf(c).Places), now)
		keptOf(c).Held = &run{record: record, units: int64(keptOf(c).Places)}
		s.mu.Unlock()
	}
}

// sendStatement sends a release or a state. Its failure counts for the breaker: streams may run for hours
// without a request that would show an outage.
func (r *Redis) sendStatement(s statement) {
	record, m := s.run.record, s.run
	n, slot := r.nodeOf(AsEncoded(record.key))
	check := Check{Policy: record.policy, Key: AsEncoded(record.key), Weight: m.units, Peek: m.units == 0, Ticket: kernel.Keep(kernel.Kept{Receipt: s.stamp})}
	c := newCall(s.op, []Check{check})
	c.slot = slot
	err := n.background(c, func(c *call) {
		outcome := outcomeOf(c.err)
		if wait := c.checks[0].Result.RetryAfter; outcome == ranOK && (wait == superseded || wait == lost) {
			outcome = ranLate
		}
		r.running.finish(m, outcome)
	})
	if err != nil {
		r.running.finish(m, ranNever)
	}
}
