package redis

import (
	"context"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
)

// writer returns a writer without messages from the pool.
func (r *Store) writer() *Writer {
	w := r.Writers.Get().(*Writer) //nolint:forcetypeassert,errcheck // the pool holds nothing else
	w.Used, w.Payloads = 0, w.Payloads[:0]
	return w
}

// Send decides a batch on a node, and reports whether the node answered.
func (r *Store) Send(ctx context.Context, n *Node, calls []*Call) bool {
	var start time.Time
	if r.onBatch != nil {
		start = time.Now()
	}
	w := r.writer()
	defer r.Writers.Put(w)
	for _, c := range calls {
		w.Payloads = append(w.Payloads, &c.Payload)
	}
	defer clear(w.Payloads)
	var answered bool
	if r.Slotted.Load() {
		answered = r.sendSlots(ctx, n, w)
	} else {
		answered = r.sendMessage(ctx, n, w, calls)
	}
	if r.onBatch != nil {
		r.onBatch(len(calls), time.Since(start))
	}
	return answered
}

// sendMessage decides a batch by one message, and reports whether the node answered.
func (r *Store) sendMessage(ctx context.Context, n *Node, w *Writer, calls []*Call) bool {
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
		rest := resendForPeriod(w, n, m)
		n.finish(rest, r.run(ctx, n.Client, rest))
	}
	return err == nil
}

// run sends a message by its script's hash, and with the script's text where Redis does not have it:
// after its first start, a SCRIPT FLUSH, a failover. NOSCRIPT means that nothing has run.
func (r *Store) run(ctx context.Context, client goredis.UniversalClient, m *Message) error {
	if m.broken != nil {
		return m.broken
	}
	err := m.Process(ctx, client, "evalsha", m.script.Sha)
	m.script.SentAt(m.Began)
	if err != nil && dial.IsNoScript(err) {
		err = m.Process(ctx, client, "eval", m.script.Text)
	}
	return err
}

// resendForPeriod writes the calls of an answered message once more whose calendar period did not contain Redis's time,
// now with that time's period.
func resendForPeriod(w *Writer, n *Node, m *Message) *Message {
	var outsidePeriod []*Payload
	for _, c := range m.Order {
		if c.IsUncovered() {
			outsidePeriod = append(outsidePeriod, c)
		}
	}
	rest := w.Message(&n.Clock)
	rest.AsOf = m.RedisTime + time.Since(m.Ended).Microseconds()
	rest.Write(outsidePeriod, w.Keys)
	return rest
}
