package limiter

import (
	"context"
	"errors"
	"time"
)

// This file sends the messages of running_record.go by the batches of all others.

// superseded and lost are the RetryAfter of a check whose message came too late. No caller gets them.
const (
	superseded time.Duration = -4
	lost       time.Duration = -5
)

// errLate is the error of a request whose messages came too late, twice.
var errLate = &UndecidedError{Kind: "other", Err: errors.New("redis has lost or overtaken what this process runs")}

// startRunning makes the store's tracker.
func (r *Redis) startRunning() {
	r.running = newRunningTracker()
	r.running.send = r.sendStatement
	r.running.failed = func() bool { return r.topology.cluster == nil && r.topology.anyNode.breaker.open() }
	r.running.ended = func() bool { return r.topology.life.Err() != nil }
}

// countsRunning reports whether one of the checks counts running requests.
func countsRunning(checks []Check) bool {
	for i := range checks {
		if checks[i].Policy.CountsRunning() {
			return true
		}
	}
	return false
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

// begin stamps the checks that take units of running requests.
func (t *runningTracker) begin(checks []Check) {
	now := t.now()
	for i := range checks {
		c := &checks[i]
		if !c.Policy.CountsRunning() || c.Peek {
			continue
		}
		s := t.shardOf(c.Key.text)
		s.mu.Lock()
		m, stamp := t.find(c.Policy, c.Key.text, now).beginTake(c.units())
		s.mu.Unlock()
		c.run, c.receipt = &m, stamp
	}
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
		if c.run == nil {
			continue
		}
		its := outcome
		if err == nil && (c.Result.RetryAfter == superseded || c.Result.RetryAfter == lost) {
			its, late = ranLate, true
		}
		if r.running.end(*c.run, its); its == ranOK {
			c.places = c.run.units
			r.uses.acquire() // until it ends; the decision has one
		} else {
			c.run = nil
		}
	}
	if late {
		return errLate
	}
	return err
}

// outcomeOf returns what became of a message without an answer, or with one that no kernel gave.
func outcomeOf(err error) runningOutcome {
	var caught failure
	switch {
	case err == nil:
		return ranOK
	case !errors.Is(err, ErrUndecided), errors.As(err, &caught), mayHaveRun(err):
		return ranUnknown
	}
	return ranNever
}

// end ends a take, and releases its units where a base has them.
func (t *runningTracker) end(m run, outcome runningOutcome) {
	now, s := t.now(), t.shardOf(m.record.key)
	s.mu.Lock()
	var next *statement
	if t.endTake(m, outcome, now) {
		m, stamp := m.record.beginRelease(m.units, now)
		next = &statement{opRelease, m, stamp}
	}
	t.tidy(m.record, now)
	s.mu.Unlock()
	if next != nil {
		t.send(*next)
	}
}

// tidy drops a record that ended or holds nothing. The shard's lock is held.
func (t *runningTracker) tidy(r *runningRecord, now time.Time) {
	if r.ended || r.isIdle(now) {
		t.drop(r)
	}
}

// EndRunning ends a request as [Failover.EndRunning] does.
func (r *Redis) EndRunning(checks []Check) {
	for i := range checks {
		c := &checks[i]
		if c.run != nil {
			r.running.release(*c.run)
			c.run, c.places = nil, 0
			r.uses.release()
		}
	}
}

// release tells Redis that units do not run any more.
func (t *runningTracker) release(m run) {
	now, r, s := t.now(), m.record, t.shardOf(m.record.key)
	s.mu.Lock()
	r.running -= m.units
	m, stamp := r.beginRelease(m.units, now)
	t.tidy(r, now)
	s.mu.Unlock()
	t.send(statement{opRelease, m, stamp})
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
		if c.places == 0 || !r.uses.acquire() {
			continue
		}
		s := t.shardOf(c.Key.text)
		s.mu.Lock()
		record := t.find(c.Policy, c.Key.text, now)
		t.letThrough(record, c.places, now)
		c.run = &run{record: record, units: c.places}
		s.mu.Unlock()
	}
}

// denyFull denies the checks if this process alone runs as much as one of them allows: no answer of Redis
// could differ. It leaves requests with policies that count denials to the store.
func (t *runningTracker) denyFull(checks []Check) (full refusal) {
	for i := range checks {
		c := &checks[i]
		if c.Policy.ban != nil {
			return refusal{}
		}
		if t.isFull(c) {
			full.deny(c, Result{RetryAfter: duration(runningHint), ResetAfter: duration(runningHint)})
		}
	}
	return full
}

// isFull reports whether this process alone runs as much as the check's policy allows.
func (t *runningTracker) isFull(c *Check) bool {
	if !c.Policy.CountsRunning() || c.Peek || c.neverPasses() {
		return false
	}
	s := t.shardOf(c.Key.text)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.records[quotaNameOf(c)]
	return r != nil && r.running >= c.Policy.params.limit
}

// sendStatement sends a release or a state. Its failure counts for the breaker: streams may run for hours
// without a request that would show an outage.
func (r *Redis) sendStatement(s statement) {
	record, m := s.run.record, s.run
	n, slot := r.nodeOf(EncodedKey{record.key})
	check := Check{Policy: record.policy, Key: EncodedKey{record.key}, Weight: m.units, Peek: m.units == 0, receipt: s.stamp}
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

// finish ends a release or a state. What follows one that failed waits: nothing else paces it.
func (t *runningTracker) finish(m run, outcome runningOutcome) {
	now, s := t.now(), t.shardOf(m.record.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	t.endMessage(m, outcome, now)
	if (outcome == ranNever || outcome == ranUnknown) && m.record.dirty {
		t.schedule(m.record, now.Add(failedSpan))
	}
	t.tidy(m.record, now)
}
