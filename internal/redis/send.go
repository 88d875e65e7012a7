package redis

import (
	"context"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/wire"
)

// writer returns a writer without messages from the pool.
func (r *Store) writer() *wire.Writer {
	w := r.Writers.Get().(*wire.Writer) //nolint:forcetypeassert,errcheck // the pool holds nothing else
	w.Used = 0
	return w
}

// sendTimed sends a batch and reports how long that took.
func (r *Store) sendTimed(ctx context.Context, n *Node, calls []*Call) bool {
	if r.onBatch == nil {
		return r.Send(ctx, n, calls)
	}
	start, size := time.Now(), len(calls)
	answered := r.Send(ctx, n, calls)
	r.onBatch(size, time.Since(start))
	return answered
}

// Send decides a batch on a node and reports whether the node answered.
func (r *Store) Send(ctx context.Context, n *Node, calls []*Call) bool {
	w := r.writer()
	defer r.Writers.Put(w)
	w.Payloads = w.Payloads[:0]
	for _, c := range calls {
		w.Payloads = append(w.Payloads, &c.Payload)
	}
	defer clear(w.Payloads)
	if r.Slotted.Load() {
		return r.sendSlots(ctx, n, w)
	}
	m := w.Message(&n.Clock)
	m.Write(w.Payloads, w.Keys)
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
	if m.Uncovered {
		rest := again(w, n, m)
		n.finish(rest, r.run(ctx, n.Client, rest))
	}
	return err == nil
}

// run sends a message by its script's hash, and with the script's text where Redis does not have it:
// after its first start, a SCRIPT FLUSH, a failover. NOSCRIPT means that nothing has run.
func (r *Store) run(ctx context.Context, client goredis.UniversalClient, m *wire.Message) error {
	script, err := r.Scripts.Get(m.Kernels)
	if err != nil {
		return err
	}
	err = m.Process(ctx, client, "evalsha", script.Sha)
	if err != nil && wire.IsNoScript(err) {
		err = m.Process(ctx, client, "eval", script.Text)
	}
	return err
}

// again writes the uncovered calls of a message that was answered once more, by the time of the answer.
func again(w *wire.Writer, n *Node, m *wire.Message) *wire.Message {
	var calls []*wire.Payload
	for _, c := range m.Order {
		if c.IsUncovered() {
			calls = append(calls, c)
		}
	}
	again := w.Message(&n.Clock)
	again.AsOf = m.RedisTime + time.Since(m.Ended).Microseconds()
	again.Write(calls, w.Keys)
	return again
}
