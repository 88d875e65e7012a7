package limiter

import (
	"context"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// writer returns a writer without messages from the pool.
func (r *Redis) writer() *Writer {
	w := r.Writers.Get().(*Writer) //nolint:forcetypeassert,errcheck // the pool holds nothing else
	w.used = 0
	return w
}

// sendTimed sends a batch and reports how long that took.
func (r *Redis) sendTimed(ctx context.Context, n *Node, calls []*Call) bool {
	if r.onBatch == nil {
		return r.Send(ctx, n, calls)
	}
	start, size := time.Now(), len(calls)
	answered := r.Send(ctx, n, calls)
	r.onBatch(size, time.Since(start))
	return answered
}

// Send decides a batch on a node and reports whether the node answered.
func (r *Redis) Send(ctx context.Context, n *Node, calls []*Call) bool {
	w := r.writer()
	defer r.Writers.Put(w)
	w.payloads = w.payloads[:0]
	for _, c := range calls {
		w.payloads = append(w.payloads, &c.Payload)
	}
	defer clear(w.payloads)
	if r.Slotted.Load() {
		return r.sendSlots(ctx, n, w)
	}
	m := w.message(&n.Clock)
	m.Write(w.payloads, w.Keys)
	err := r.run(ctx, n.Client, m)
	if err != nil && strings.Contains(err.Error(), "CROSSSLOT") {
		// A sharding proxy that looks like one Redis. Nothing has run.
		r.Slotted.Store(true)
		for _, c := range calls {
			c.Slot = w.Keys.SlotOf(c.Checks[0].Key.String())
		}
		return r.sendSlots(ctx, n, w)
	}
	n.finish(m, err)
	if m.hasUncovered() {
		again := w.again(n, m)
		n.finish(again, r.run(ctx, n.Client, again))
	}
	return err == nil
}

// run sends a message by its script's hash, and with the script's text where Redis does not have it:
// after its first start, a SCRIPT FLUSH, a failover. NOSCRIPT means that nothing has run.
func (r *Redis) run(ctx context.Context, client goredis.UniversalClient, m *Message) error {
	script, err := r.Scripts.Get(m.kernels)
	if err != nil {
		return err
	}
	err = m.process(ctx, client, "evalsha", script.Sha)
	if isNoScript(err) {
		err = m.process(ctx, client, "eval", script.Text)
	}
	return err
}

// again writes the uncovered calls of a message that was answered once more, by the time of the answer.
func (w *Writer) again(n *Node, m *Message) *Message {
	var calls []*Payload
	for _, c := range m.order {
		if c.isUncovered() {
			calls = append(calls, c)
		}
	}
	again := w.message(&n.Clock)
	again.asOf = m.redisTime + time.Since(m.ended).Microseconds()
	again.Write(calls, w.Keys)
	return again
}
