package limiter

import (
	"context"
	"errors"
	"time"
)

// This file decides requests whose checks lie in several slots of a Cluster, which no single script run
// can: all are looked at, then charged, and given back if another request won the race between.

// slotGroup is the checks of a request that lie in one slot.
type slotGroup struct {
	slot    uint16
	indices []int   // of its checks, among those of the request
	checks  []Check // with their answers, where it was decided
	decided bool    // when it was asked last
	node    *node   // that was asked last
	call    *call   // while an answer is waited for
}

// decideCrossSlot decides the parts of a request, all or nothing.
func (r *Redis) decideCrossSlot(ctx context.Context, checks []Check, parts []*slotGroup) error {
	deadline := time.Now().Add(r.timeout)
	if err := r.runGroups(ctx, parts, opPeek, deadline); err != nil {
		return err
	}
	if keep(checks, parts); !Allowed(checks) {
		return nil
	}
	err := r.runGroups(ctx, parts, opReserve, deadline)
	if err == nil && allPass(parts) {
		keep(checks, parts)
		return nil
	}
	var denied []*slotGroup
	for _, p := range parts {
		switch {
		case !p.decided:
		case Allowed(p.checks):
			p.node.refund(p.slot, p.checks)
		default:
			denied = append(denied, p)
		}
	}
	keep(checks, denied)
	return err
}

// groupBySlot sorts the checks by slot.
func (r *Redis) groupBySlot(checks []Check) []*slotGroup {
	w := r.writer()
	defer r.writers.Put(w)
	var parts []*slotGroup
	bySlot := map[uint16]*slotGroup{}
	for i := range checks {
		slot := w.keys.slotOf(checks[i].Key)
		p := bySlot[slot]
		if p == nil {
			p = &slotGroup{slot: slot}
			bySlot[slot] = p
			parts = append(parts, p)
		}
		p.indices = append(p.indices, i)
		p.checks = append(p.checks, checks[i])
	}
	return parts
}

// keep copies the answers of the parts to the checks that they are of.
func keep(checks []Check, parts []*slotGroup) {
	for _, p := range parts {
		for i, at := range p.indices {
			checks[at] = p.checks[i]
		}
	}
}

// allPass tells whether every check of every part passed.
func allPass(parts []*slotGroup) bool {
	for _, p := range parts {
		if !Allowed(p.checks) {
			return false
		}
	}
	return true
}

// runGroups runs one operation on all parts at once and waits for every answer, or until the deadline. Its
// error joins those of the parts that were not decided.
func (r *Redis) runGroups(ctx context.Context, parts []*slotGroup, op operation, deadline time.Time) error {
	sent := now()
	var failed error
	for _, p := range parts {
		failed = errors.Join(failed, r.enqueueGroup(p, op))
	}
	for _, p := range parts {
		if p.call != nil {
			err := p.await(ctx, deadline)
			p.node.report(op, p.slot, p.checks, sent, err)
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// enqueueGroup puts a part's question in line, at the server that has its slot now. Without an error it has a
// call to wait for.
func (r *Redis) enqueueGroup(p *slotGroup, op operation) error {
	p.node, p.decided = r.topology.to(p.slot), false
	if p.node.breaker.open() {
		return ErrOutage
	}
	c := newCall(op, p.checks)
	c.slot = p.slot
	if err := p.node.batcher.enqueue(c); err != nil {
		p.node.report(op, p.slot, p.checks, now(), err)
		return err
	}
	p.call = c
	return nil
}

// await takes the answer of the part's call.
func (s *slotGroup) await(ctx context.Context, deadline time.Time) error {
	c := s.call
	s.call = nil
	err := s.node.settle(ctx, c, await(ctx, c, max(0, time.Until(deadline))))
	if err != nil {
		return err
	}
	s.decided = true
	c.take(s.checks)
	return nil
}
