package limiter

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// This file is what a Cluster adds: a script may touch the keys of one slot alone.

// decideSlotted decides checks that may lie in several slots.
func (r *Redis) decideSlotted(ctx context.Context, checks []Check) error {
	if len(checks) == 1 {
		w := r.writer()
		s, slot := r.serverOf(w, &checks[0])
		r.writers.Put(w)
		return r.decideAt(ctx, s, slot, checks)
	}
	parts := r.split(checks)
	if len(parts) == 1 {
		return r.decideAt(ctx, r.routes.to(parts[0].slot), parts[0].slot, checks)
	}
	return r.decideAcross(ctx, checks, parts)
}

// serverOf finds the slot of a check and who decides there.
func (r *Redis) serverOf(w *writer, c *Check) (*server, uint16) {
	slot := w.naming.slotOf(c.Key)
	return r.routes.to(slot), slot
}

// sendSlots has a server decide a batch with one script run per slot, all in one pipeline.
func (r *Redis) sendSlots(ctx context.Context, s *server, w *writer, calls []*call) bool {
	slices.SortStableFunc(calls, func(a, b *call) int { return int(a.slot) - int(b.slot) })
	w.used = 0
	for len(calls) > 0 {
		n := 1
		for n < len(calls) && calls[n].slot == calls[0].slot {
			n++
		}
		w.message().write(calls[:n], w.naming)
		calls = calls[n:]
	}
	messages := w.messages[:w.used]
	if len(messages) == 1 {
		return r.end(ctx, s, messages[0], r.run(ctx, s.client, messages[0]))
	}
	r.runAll(ctx, s.client, messages)
	answered := true
	for _, m := range messages {
		answered = r.end(ctx, s, m, m.sent.Err()) && answered
	}
	return answered
}

// runAll sends the messages in one pipeline. Those whose script was not known follow one by one.
func (r *Redis) runAll(ctx context.Context, client redis.UniversalClient, messages []*message) {
	pipeline := client.Pipeline()
	for _, m := range messages {
		script, err := r.scripts.get(m.kernels)
		if err != nil {
			m.command("evalsha", "")
			m.sent.SetErr(err)
			continue
		}
		m.command("evalsha", script.sha)
		_ = pipeline.Process(ctx, m.sent) // a pipeline's errors come with Exec
	}
	_, _ = pipeline.Exec(ctx) // and every command has its own
	for _, m := range messages {
		if isNoScript(m.sent.Err()) {
			_ = r.run(ctx, client, m) // the message's command has it
		}
	}
}

// end hands the outcome of a message to its calls, and learns of the Cluster from it: one that was
// sent to a master which does not have its slot any more goes again, by way of the whole.
func (r *Redis) end(ctx context.Context, s *server, m *message, err error) (answered bool) {
	if s != r.routes.whole && isRedirection(err) {
		s = r.routes.whole
		err = r.run(ctx, s.client, m)
	}
	m.settle(err)
	if err == nil && s == r.routes.whole && r.routes.cluster != nil {
		r.routes.know()
		r.routes.learn(m.order[0].slot)
	}
	return err == nil
}

// isRedirection tells whether a master has answered that another one decides. Nothing has run.
func isRedirection(err error) bool {
	return redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK")
}

// part is the checks of a request that lie in one slot.
type part struct {
	slot    uint16
	server  *server // that was asked last
	probe   bool
	indices []int
	checks  []Check
	call    *call
}

// decideAcross decides checks that no single script run can: all are looked at, then charged, and
// given back if another request won the race between.
func (r *Redis) decideAcross(ctx context.Context, checks []Check, parts []*part) error {
	deadline := time.Now().Add(r.timeout)
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
			p.server.giveBack(p.slot, p.call.checks, p.call.receipts)
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
	w := r.writer()
	defer r.writers.Put(w)
	var parts []*part
	for i := range checks {
		slot := w.naming.slotOf(checks[i].Key)
		at := slices.IndexFunc(parts, func(p *part) bool { return p.slot == slot })
		if at < 0 {
			at = len(parts)
			parts = append(parts, &part{slot: slot})
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
			if i < len(p.call.receipts) {
				checks[at].receipt = p.call.receipts[i]
			}
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
	sent := time.Now()
	var first error
	for _, p := range parts {
		first = errors.Join(first, r.ask(p, op))
	}
	for _, p := range parts {
		if p.call == nil {
			continue
		}
		err := await(ctx, p.call, max(0, time.Until(deadline)))
		err = p.server.settle(ctx, p.call, err)
		p.server.report(p.probe, sent, err)
		if err != nil {
			p.call = nil
			first = errors.Join(first, err)
		}
	}
	return first
}

// ask puts a part's question in line, at the server that has its slot now. Without an error it has a
// call afterwards.
func (r *Redis) ask(p *part, op operation) error {
	var allowed bool
	p.server = r.routes.to(p.slot)
	if allowed, p.probe = p.server.breaker.allow(); !allowed {
		return ErrOutage
	}
	c := newCall(op, p.checks)
	c.slot = p.slot
	if err := p.server.batcher.enqueue(c); err != nil {
		p.server.report(p.probe, time.Now(), err)
		return err
	}
	p.call = c
	return nil
}
