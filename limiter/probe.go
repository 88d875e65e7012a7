package limiter

import (
	"context"
	"strconv"
	"time"
)

// This file holds the probes: decisions on a reserved key, which show whether Redis decides. A PING would
// not: a user may have the right to it and not to what the script does.

// attempt is an operation that a server failed at, which a probe repeats.
type attempt struct {
	op       operation
	slot     uint16
	policies []*Policy
	err      error // why it failed
}

// attemptOf returns the attempt of an operation on checks of one slot.
func attemptOf(op operation, slot uint16, checks []Check, err error) *attempt {
	a := &attempt{op: op, slot: slot, err: err}
	for i := range checks {
		a.policies = append(a.policies, checks[i].Policy)
	}
	return a
}

// recover probes a server whose breaker is open, once an interval, until it decides again or is used no
// more. The probe repeats what opened the breaker: where a user has lost one right of several, anything
// else would close it for a moment.
func (r *Redis) recover(s *node) {
	timer := time.NewTimer(probeInterval)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.life.Done():
			return
		}
		a := *s.cause.Load()
		if slot, found := r.topology.slotAt(s, a.slot); found {
			a.slot = slot
			if a.err = r.probe(s.life, s, &a); a.err == nil || FailedAlone(a.err) {
				s.breaker.close()
				return
			}
		}
		if s.life.Err() != nil {
			return
		}
		s.cause.Store(&a)
		s.breaker.postpone()
		s.failed()
		timer.Reset(probeInterval)
	}
}

// probe has a server do what an attempt was about, on the reserved key. To give back it reserves two
// units before, so that a log has an entry to move.
func (r *Redis) probe(ctx context.Context, s *node, a *attempt) error {
	operations := []operation{opTake}
	if a.op == opRefund {
		operations = []operation{opReserve, opReserve, opRefund}
	}
	checks := r.probeChecks(a)
	for _, op := range operations {
		if err := r.try(ctx, s, op, a.slot, checks); err != nil && Kind(err) != "value" { // that is the key's
			return err
		}
	}
	return nil
}

// try has a server do one operation, past the breaker.
func (r *Redis) try(ctx context.Context, s *node, op operation, slot uint16, checks []Check) error {
	c := newCall(op, checks)
	c.slot = slot
	if op == opRefund {
		for i := range checks {
			c.receipts = append(c.receipts, checks[i].receipt)
		}
	}
	if err := s.settle(ctx, c, s.batcher.do(ctx, c, r.timeout)); err != nil {
		return err
	}
	c.take(checks)
	return nil
}

// probeChecks returns the checks of a probe: a unit of each policy's share of the reserved key.
func (r *Redis) probeChecks(a *attempt) []Check {
	key := probeKey
	if r.slotted.Load() {
		key = r.probeKeyIn(a.slot)
	}
	var checks []Check
	for _, p := range a.policies {
		checks = append(checks, Check{Policy: p.forProbes(), Key: key, Weight: 1})
	}
	if len(checks) == 0 {
		checks = append(checks, Check{Policy: anyProbed, Key: key, Weight: 1})
	}
	return checks
}

// probeKeyIn returns a reserved key in a slot of a Cluster. It is found by trial, once.
func (r *Redis) probeKeyIn(slot uint16) string {
	if key, known := r.probeKeys.Load(slot); known {
		return key.(string) //nolint:forcetypeassert,errcheck // nothing else is stored
	}
	n := r.keyFormat.newWriter()
	for i := 0; ; i++ {
		if key := probeKey + strconv.Itoa(i); n.slotOf(key) == slot {
			r.probeKeys.Store(slot, key)
			return key
		}
	}
}

// forProbes returns a policy of the same algorithm, under the same name in Redis, whose keys live for a
// moment.
func (p *Policy) forProbes() *Policy {
	probed, err := NewPolicy(Settings{Name: p.Name(), Algorithm: p.algorithm.name, Limit: 1000, Window: time.Second})
	if err != nil {
		return p
	}
	probed.id = p.id
	return probed
}

// anyProbed is probed where it is not known what failed.
var anyProbed = (&Policy{settings: Settings{Name: "probe"}, algorithm: algorithmNamed("gcra"), id: "probe:g1s"}).forProbes()

// Probe reports why Redis does not decide requests of such checks now, nil where it does. It takes units
// of a reserved key under their policies, where their keys lie, and charges nothing of the checks. Where
// requests are kept from Redis it is not asked, and the error is that of the last probe.
func (r *Redis) Probe(ctx context.Context, checks []Check) error {
	if r.closed.Load() {
		return errClosed
	}
	parts := []*slotGroup{{checks: checks}}
	if r.slotted.Load() {
		parts = r.groupBySlot(checks)
	}
	for _, p := range parts {
		if err := r.probeUnlessOpen(ctx, r.topology.to(p.slot), attemptOf(opTake, p.slot, p.checks, nil)); err != nil {
			return err
		}
	}
	return nil
}

// ProbeAll is as [Redis.Probe], on every master that has been asked, for any client of the policies.
func (r *Redis) ProbeAll(ctx context.Context, policies []*Policy) error {
	if r.closed.Load() {
		return errClosed
	}
	a := attempt{op: opTake, slot: r.keyFormat.newWriter().slotOf(probeKey), policies: onePerScript(policies)}
	for _, s := range r.topology.servers() {
		own := a
		own.slot, _ = r.topology.slotAt(s, a.slot)
		if err := r.probeUnlessOpen(ctx, s, &own); err != nil {
			return err
		}
	}
	return nil
}

// onePerScript returns policies that take all the commands which the given ones take.
func onePerScript(policies []*Policy) []*Policy {
	var kept []*Policy
	var seen kernelSet
	for _, p := range policies {
		if own := kernelSetOf(p.algorithm); seen&own == 0 {
			seen |= own
			kept = append(kept, p)
		}
	}
	return kept
}

// probeUnlessOpen probes a server, or returns why its breaker is open.
func (r *Redis) probeUnlessOpen(ctx context.Context, s *node, a *attempt) error {
	if cause := s.cause.Load(); cause != nil && s.breaker.open() {
		return cause.err
	}
	return r.probe(ctx, s, a)
}
