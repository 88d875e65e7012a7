package limiter

import (
	"context"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// writer returns a writer without messages from the pool.
func (r *Redis) writer() *writer {
	w := r.writers.Get().(*writer) //nolint:forcetypeassert,errcheck // the pool holds nothing else
	w.used = 0
	return w
}

// sendTimed sends a batch and reports how long that took.
func (r *Redis) sendTimed(ctx context.Context, n *node, calls []*call) bool {
	if r.onBatch == nil {
		return r.send(ctx, n, calls)
	}
	start, size := time.Now(), len(calls)
	answered := r.send(ctx, n, calls)
	r.onBatch(size, time.Since(start))
	return answered
}

// send decides a batch on a node and reports whether the node answered.
func (r *Redis) send(ctx context.Context, n *node, calls []*call) bool {
	w := r.writer()
	defer r.writers.Put(w)
	w.payloads = w.payloads[:0]
	for _, c := range calls {
		w.payloads = append(w.payloads, &c.payload)
	}
	defer clear(w.payloads)
	if r.slotted.Load() {
		return r.sendSlots(ctx, n, w)
	}
	m := w.message(&n.clock)
	m.write(w.payloads, w.keys)
	err := r.run(ctx, n.client, m)
	if err != nil && strings.Contains(err.Error(), "CROSSSLOT") {
		// A sharding proxy that looks like one Redis. Nothing has run.
		r.slotted.Store(true)
		for _, c := range calls {
			c.slot = w.keys.slotOf(c.checks[0].Key.String())
		}
		return r.sendSlots(ctx, n, w)
	}
	n.finish(m, err)
	if m.hasUncovered() {
		again := w.again(n, m)
		n.finish(again, r.run(ctx, n.client, again))
	}
	return err == nil
}

// run sends a message by its script's hash, and with the script's text where Redis does not have it:
// after its first start, a SCRIPT FLUSH, a failover. NOSCRIPT means that nothing has run.
func (r *Redis) run(ctx context.Context, client goredis.UniversalClient, m *message) error {
	script, err := r.scripts.get(m.kernels)
	if err != nil {
		return err
	}
	err = m.process(ctx, client, "evalsha", script.sha)
	if isNoScript(err) {
		err = m.process(ctx, client, "eval", script.text)
	}
	return err
}

// again writes the uncovered calls of a message that was answered once more, by the time of the answer.
func (w *writer) again(n *node, m *message) *message {
	var calls []*payload
	for _, c := range m.order {
		if c.isUncovered() {
			calls = append(calls, c)
		}
	}
	again := w.message(&n.clock)
	again.asOf = m.redisTime + time.Since(m.ended).Microseconds()
	again.write(calls, w.keys)
	return again
}
