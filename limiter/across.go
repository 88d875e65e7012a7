package limiter

import (
	"context"
	"errors"
	"time"
)

// This file decides requests whose checks lie in several slots of a Cluster, which no single script run
// can: all are looked at, then charged, and given back if another request won the race between.

// part is the checks of a request that lie in one slot.
type part struct {
	slot    uint16
	indices []int   // of its checks, among those of the request
	checks  []Check // with their answers, where it was decided
	decided bool    // when it was asked last
	server  *server // that was asked last
	call    *call   // while an answer is waited for
}

// decideAcross decides the parts of a request, all or nothing.
func (r *Redis) decideAcross(ctx context.Context, checks []Check, parts []*part) error {
	deadline := time.Now().Add(r.timeout)
	if err := r.askAll(ctx, parts, opLook, deadline); err != nil {
		return err
	}
	if keep(checks, parts); !Allowed(checks) {
		return nil
	}
	err := r.askAll(ctx, parts, opReserve, deadline)
	if err == nil && allPass(parts) {
		keep(checks, parts)
		return nil
	}
	var denied []*part
	for _, p := range parts {
		switch {
		case !p.decided:
		case Allowed(p.checks):
			p.server.giveBack(p.slot, p.checks)
		default:
			denied = append(denied, p)
		}
	}
	keep(checks, denied)
	return err
}

// split sorts the checks by slot.
func (r *Redis) split(checks []Check) []*part {
	w := r.writer()
	defer r.writers.Put(w)
	var parts []*part
	bySlot := map[uint16]*part{}
	for i := range checks {
		slot := w.naming.slotOf(checks[i].Key)
		p := bySlot[slot]
		if p == nil {
			p = &part{slot: slot}
			bySlot[slot] = p
			parts = append(parts, p)
		}
		p.indices = append(p.indices, i)
		p.checks = append(p.checks, checks[i])
	}
	return parts
}

// keep copies the answers of the parts to the checks that they are of.
func keep(checks []Check, parts []*part) {
	for _, p := range parts {
		for i, at := range p.indices {
			checks[at] = p.checks[i]
		}
	}
}

// allPass tells whether every check of every part passed.
func allPass(parts []*part) bool {
	for _, p := range parts {
		if !Allowed(p.checks) {
			return false
		}
	}
	return true
}

// askAll runs one operation on all parts at once and waits for every answer, or until the deadline. Its
// error joins those of the parts that were not decided.
func (r *Redis) askAll(ctx context.Context, parts []*part, op operation, deadline time.Time) error {
	sent := now()
	var failed error
	for _, p := range parts {
		failed = errors.Join(failed, r.ask(p, op))
	}
	for _, p := range parts {
		if p.call != nil {
			err := p.await(ctx, deadline)
			p.server.report(op, p.slot, p.checks, sent, err)
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// ask puts a part's question in line, at the server that has its slot now. Without an error it has a
// call to wait for.
func (r *Redis) ask(p *part, op operation) error {
	p.server, p.decided = r.routes.to(p.slot), false
	if p.server.breaker.open() {
		return ErrOutage
	}
	c := newCall(op, p.checks)
	c.slot = p.slot
	if err := p.server.batcher.enqueue(c); err != nil {
		p.server.report(op, p.slot, p.checks, now(), err)
		return err
	}
	p.call = c
	return nil
}

// await takes the answer of the part's call.
func (p *part) await(ctx context.Context, deadline time.Time) error {
	c := p.call
	p.call = nil
	err := p.server.settle(ctx, c, await(ctx, c, max(0, time.Until(deadline))))
	if err != nil {
		return err
	}
	p.decided = true
	c.take(p.checks)
	return nil
}
