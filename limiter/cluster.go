package limiter

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"
)

// This file is what a Cluster adds: a script may touch the keys of one slot alone. What a request does
// whose keys lie in several is in across.go.

// decideSlotted decides checks that may lie in several slots.
func (r *Redis) decideSlotted(ctx context.Context, checks []Check) error {
	if len(checks) == 1 {
		w := r.writer()
		s, slot := r.nodeOf(w, &checks[0])
		r.writers.Put(w)
		return r.decideAt(ctx, s, slot, checks)
	}
	parts := r.groupBySlot(checks)
	if len(parts) == 1 {
		return r.decideAt(ctx, r.topology.to(parts[0].slot), parts[0].slot, checks)
	}
	return r.decideCrossSlot(ctx, checks, parts)
}

// nodeOf finds the slot of a check and who decides there.
func (r *Redis) nodeOf(w *writer, c *Check) (*node, uint16) {
	slot := w.keys.slotOf(c.Key)
	return r.topology.to(slot), slot
}

// sendSlots has a server decide a batch with one script run per slot, all in one pipeline.
func (r *Redis) sendSlots(ctx context.Context, s *node, w *writer, calls []*call) bool {
	slices.SortStableFunc(calls, func(a, b *call) int { return int(a.slot) - int(b.slot) })
	w.used = 0
	for len(calls) > 0 {
		n := 1
		for n < len(calls) && calls[n].slot == calls[0].slot {
			n++
		}
		w.message().write(calls[:n], w.keys)
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
func (r *Redis) end(ctx context.Context, s *node, m *message, err error) (answered bool) {
	if s != r.topology.anyNode && isRedirection(err) {
		s = r.topology.anyNode
		err = r.run(ctx, s.client, m)
	}
	m.settle(err)
	if err == nil && s == r.topology.anyNode && r.topology.cluster != nil {
		r.topology.discover()
		r.topology.learn(m.order[0].slot)
	}
	return err == nil
}

// isRedirection tells whether a master has answered that another one decides. Nothing has run.
func isRedirection(err error) bool {
	return redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK")
}
