package limiter

import (
	"context"
	"slices"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// decideSlotted decides checks that may lie in several slots of a Cluster, where a script may touch
// the keys of one slot alone.
func (r *Redis) decideSlotted(ctx context.Context, checks []Check) error {
	if len(checks) == 1 {
		n, slot := r.nodeOf(checks[0].Key)
		return r.decideAt(ctx, n, slot, checks)
	}
	groups := r.groupBySlot(checks)
	if len(groups) == 1 {
		return r.decideAt(ctx, r.topology.to(groups[0].slot), groups[0].slot, checks)
	}
	return r.decideCrossSlot(ctx, checks, groups)
}

// slotOf returns the slot of a key; 0 where there are no slots.
func (r *Redis) slotOf(key EncodedKey) uint16 {
	if !r.slotted.Load() {
		return 0
	}
	w := r.writer()
	defer r.writers.Put(w)
	return w.keys.slotOf(key.String())
}

// AppendClient appends the text that stands for a client's key in the names of Redis keys: the encoded key,
// or its HMAC.
func (r *Redis) AppendClient(dst []byte, key EncodedKey) []byte {
	w := r.writer()
	dst = w.keys.appendClient(dst, key.String())
	r.writers.Put(w)
	return dst
}

// nodeOf returns the node that decides a key, and the key's slot.
func (r *Redis) nodeOf(key EncodedKey) (*node, uint16) {
	slot := r.slotOf(key)
	return r.topology.to(slot), slot
}

// sendSlots decides a batch on a node with one script run per slot, all in one pipeline.
func (r *Redis) sendSlots(ctx context.Context, n *node, w *writer) bool {
	calls := w.payloads
	slices.SortStableFunc(calls, func(a, b *payload) int { return int(a.slot) - int(b.slot) })
	w.used = 0
	for len(calls) > 0 {
		size := 1
		for size < len(calls) && calls[size].slot == calls[0].slot {
			size++
		}
		w.message(&n.clock).write(calls[:size], w.keys)
		calls = calls[size:]
	}
	messages := w.messages[:w.used]
	if len(messages) == 1 {
		return r.endSlot(ctx, n, w, messages[0], r.run(ctx, n.client, messages[0]))
	}
	return r.sendAll(ctx, n, w, messages)
}

// sendAll sends messages in one pipeline, and reports whether the node answered all.
func (r *Redis) sendAll(ctx context.Context, n *node, w *writer, messages []*message) bool {
	r.runAll(ctx, n.client, messages)
	answered := true
	for _, m := range messages {
		answered = r.endSlot(ctx, n, w, m, m.sent.Err()) && answered
	}
	return answered
}

// endSlot passes the outcome of a slot's message to its calls, after those that need it were sent again.
func (r *Redis) endSlot(ctx context.Context, n *node, w *writer, m *message, err error) (answered bool) {
	answered = r.end(ctx, n, m, err)
	if m.isTorn() {
		return r.sendApart(ctx, n, w, m)
	}
	if m.hasUncovered() {
		again := w.again(n, m)
		r.end(ctx, n, again, r.run(ctx, n.client, again))
	}
	return answered
}

// sendApart sends each call of a torn message alone. The keys of one call may lie on one master, or be all new.
func (r *Redis) sendApart(ctx context.Context, n *node, w *writer, torn *message) bool {
	first := w.used
	for i, c := range torn.order {
		c.err = nil
		w.message(&n.clock).write(torn.order[i:i+1], w.keys)
	}
	return r.sendAll(ctx, n, w, w.messages[first:w.used])
}

// runAll sends the messages in one pipeline. Those whose script Redis did not have follow one by
// one.
func (r *Redis) runAll(ctx context.Context, client goredis.UniversalClient, messages []*message) {
	pipeline := client.Pipeline()
	for _, m := range messages {
		script, err := r.scripts.get(m.kernels)
		if err != nil {
			m.command("evalsha", "")
			m.sent.SetErr(err)
			continue
		}
		m.command("evalsha", script.sha)
		_ = pipeline.Process(ctx, m.sent) // Exec returns a pipeline's errors
	}
	began := time.Now()
	_, _ = pipeline.Exec(ctx) // every command has its own error
	ended := time.Now()
	for _, m := range messages {
		m.began, m.ended = began, ended
		if isNoScript(m.sent.Err()) {
			_ = r.run(ctx, client, m) // the error is in m.sent
		}
	}
}

// end passes the outcome of a message to its calls. A message that was sent to a master which has
// lost its slot is sent again by way of any node, and the topology learns the slot's new master.
func (r *Redis) end(ctx context.Context, n *node, m *message, err error) (answered bool) {
	if n != r.topology.anyNode && isRedirection(err) {
		n = r.topology.anyNode
		err = r.run(ctx, n.client, m)
	}
	n.finish(m, err)
	if err == nil && n == r.topology.anyNode && r.topology.cluster != nil {
		r.topology.discover()
		r.topology.learn(m.order[0].slot)
	}
	return err == nil
}
