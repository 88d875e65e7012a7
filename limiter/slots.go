package limiter

import (
	"context"
	"errors"
	"slices"
	"time"
)

// This file is what a Cluster adds: a script may touch the keys of one slot alone.

// sameSlot tells whether one script run can decide all the checks.
func (r *Redis) sameSlot(checks []Check) bool {
	w := r.writers.Get().(*writer) //nolint:forcetypeassert,errcheck // the pool holds nothing else
	defer r.writers.Put(w)
	slot := w.naming.slotOf(checks[0].Key)
	for i := range checks[1:] {
		if key := checks[i+1].Key; key != checks[0].Key && w.naming.slotOf(key) != slot {
			return false
		}
	}
	return true
}

// sendSlots decides a batch with one script run per slot, all in one pipeline, which go-redis
// splits by node. The runs whose node did not know their script follow in a second one.
func (r *Redis) sendSlots(ctx context.Context, w *writer, calls []*call) bool {
	slots := map[uint16][]*call{}
	for _, c := range calls {
		slot := w.naming.slotOf(c.checks[0].Key)
		slots[slot] = append(slots[slot], c)
	}
	messages := make([]*message, 0, len(slots))
	for _, calls := range slots {
		m := w.message(len(messages))
		m.write(calls, w.naming)
		messages = append(messages, m)
	}
	unknown, answered := r.runAll(ctx, messages, func(s *script) (string, string) { return "evalsha", s.sha })
	if len(unknown) > 0 {
		_, answered = r.runAll(ctx, unknown, func(s *script) (string, string) { return "eval", s.text })
	}
	return answered
}

// runAll sends the messages in one pipeline and settles them, except those that it returns: their
// script was not known, so that they have not run. It tells whether all were answered.
func (r *Redis) runAll(ctx context.Context, messages []*message, form func(*script) (name, script string)) (unknown []*message, answered bool) {
	pipeline := r.client.Pipeline()
	commands := make([]once, len(messages))
	for i, m := range messages {
		s, err := r.scripts.get(m.kernels)
		if err != nil {
			m.settle(nil, err)
			continue
		}
		commands[i] = m.command(form(s))
		_ = pipeline.Process(ctx, commands[i]) // a pipeline's errors come with Exec
	}
	_, _ = pipeline.Exec(ctx) // and every command has its own
	answered = true
	for i, m := range messages {
		switch cmd := commands[i]; {
		case cmd.Cmd == nil: // settled above
		case isNoScript(cmd.Err()):
			unknown = append(unknown, m)
		default:
			m.settle(cmd.Val(), cmd.Err())
			answered = answered && cmd.Err() == nil
		}
	}
	return unknown, answered
}

// part is the checks of a request that lie in one slot.
type part struct {
	indices []int
	checks  []Check
	call    *call
}

// decideAcross decides checks that no single script run can: all are looked at, then charged, and
// given back if another request won the race between.
func (r *Redis) decideAcross(ctx context.Context, checks []Check) error {
	deadline := time.Now().Add(r.timeout)
	parts := r.split(checks)
	if err := r.askAll(ctx, parts, opLook, deadline); err != nil {
		endAll(parts)
		return err
	}
	if keep(checks, parts); !Allowed(checks) {
		endAll(parts)
		return nil
	}
	endAll(parts)
	err := r.askAll(ctx, parts, opReserve, deadline)
	if err == nil && allPass(parts) {
		keep(checks, parts)
		endAll(parts)
		return nil
	}
	var denied []*part
	for _, p := range parts {
		switch {
		case p.call == nil:
		case Allowed(p.call.checks):
			r.giveBack(p.call)
		default:
			denied = append(denied, p)
		}
	}
	keep(checks, denied)
	endAll(parts)
	return err
}

// split sorts the checks by slot.
func (r *Redis) split(checks []Check) []*part {
	w := r.writers.Get().(*writer) //nolint:forcetypeassert,errcheck // the pool holds nothing else
	defer r.writers.Put(w)
	var parts []*part
	var slots []uint16
	for i := range checks {
		slot := w.naming.slotOf(checks[i].Key)
		at := slices.Index(slots, slot)
		if at < 0 {
			at = len(parts)
			slots, parts = append(slots, slot), append(parts, &part{})
		}
		parts[at].indices = append(parts[at].indices, i)
		parts[at].checks = append(parts[at].checks, checks[i])
	}
	return parts
}

// keep copies the answers of the parts to the checks that they are of.
func keep(checks []Check, parts []*part) {
	for _, p := range parts {
		for i, at := range p.indices {
			checks[at].Result = p.call.checks[i].Result
		}
	}
}

// allPass tells whether every check of every part passed.
func allPass(parts []*part) bool {
	for _, p := range parts {
		if !Allowed(p.call.checks) {
			return false
		}
	}
	return true
}

// endAll ends the calls that the parts still have.
func endAll(parts []*part) {
	for _, p := range parts {
		if p.call != nil {
			p.call.recycle()
			p.call = nil
		}
	}
}

// askAll runs one operation on all parts at once and waits for every answer. The parts that were
// decided have their answered call afterwards, the others none. The first error is returned.
func (r *Redis) askAll(ctx context.Context, parts []*part, op operation, deadline time.Time) error {
	var first error
	for _, p := range parts {
		p.call = newCall(op, p.checks)
		if err := r.batcher.enqueue(p.call); err != nil {
			p.call, first = nil, err
		}
	}
	for _, p := range parts {
		if p.call == nil {
			continue
		}
		err := await(ctx, p.call, max(0, time.Until(deadline)))
		if err == nil && p.call.err != nil {
			err = p.call.err
			p.call.recycle()
		}
		if err != nil {
			p.call = nil
			first = errors.Join(first, err)
		}
	}
	return first
}

// giveBack undoes a reserve, without waiting for it.
func (r *Redis) giveBack(reserved *call) {
	c := newCall(opGiveBack, reserved.checks)
	c.receipts = append(c.receipts, reserved.receipts...)
	c.detached = true
	_ = r.batcher.enqueue(c) // where the queue is full the units drain by themselves
}
