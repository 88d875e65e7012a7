package redis

import (
	"context"
	"slices"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// decideSlotted decides checks that may lie in several slots of a Cluster, where a script may touch
// the keys of one slot alone.
func (r *Store) decideSlotted(ctx context.Context, checks []limiter.Check) error {
	if len(checks) == 1 {
		n, slot := r.NodeOf(checks[0].Key)
		return r.decideAt(ctx, n, slot, checks)
	}
	groups := r.GroupBySlot(checks)
	if len(groups) == 1 {
		return r.decideAt(ctx, r.Topology.To(groups[0].slot), groups[0].slot, checks)
	}
	return r.decideCrossSlot(ctx, checks, groups)
}

// SlotOf returns the slot of a key; 0 where there are no slots.
func (r *Store) SlotOf(key limiter.EncodedKey) uint16 {
	if !r.Slotted.Load() {
		return 0
	}
	w := r.writer()
	defer r.Writers.Put(w)
	return w.Keys.SlotOf(key.String())
}

// AppendClient appends the client's part of the names of Redis keys: the encoded key, or its HMAC.
func (r *Store) AppendClient(dst []byte, key limiter.EncodedKey) []byte {
	w := r.writer()
	dst = w.Keys.AppendClient(dst, key.String())
	r.Writers.Put(w)
	return dst
}

// NodeOf returns the node that decides a key, and the key's slot.
func (r *Store) NodeOf(key limiter.EncodedKey) (*Node, uint16) {
	slot := r.SlotOf(key)
	return r.Topology.To(slot), slot
}

// sendSlots decides a batch on a node with one script run per slot, all in one pipeline.
func (r *Store) sendSlots(ctx context.Context, n *Node, w *Writer) bool {
	calls := w.Payloads
	slices.SortStableFunc(calls, func(a, b *Payload) int { return int(a.Slot) - int(b.Slot) })
	w.Used = 0
	for len(calls) > 0 {
		size := 1
		for size < len(calls) && calls[size].Slot == calls[0].Slot {
			size++
		}
		w.Message(&n.Clock).Write(calls[:size], w.Keys)
		calls = calls[size:]
	}
	messages := w.Messages[:w.Used]
	if len(messages) == 1 {
		return r.endSlot(ctx, n, w, messages[0], r.run(ctx, n.Client, messages[0]))
	}
	return r.sendAll(ctx, n, w, messages)
}

// sendAll sends messages in one pipeline, and reports whether the node answered all.
func (r *Store) sendAll(ctx context.Context, n *Node, w *Writer, messages []*Message) bool {
	r.runAll(ctx, n, messages)
	answered := true
	for _, m := range messages {
		answered = r.endSlot(ctx, n, w, m, m.Sent.Err()) && answered
	}
	return answered
}

// endSlot passes the outcome of a slot's message to its calls, after those that need it were sent again.
func (r *Store) endSlot(ctx context.Context, n *Node, w *Writer, m *Message, err error) (answered bool) {
	answered = r.end(ctx, n, m, err)
	if m.IsTorn() {
		return r.sendApart(ctx, n, w, m)
	}
	if m.Uncovered {
		rest := resendForPeriod(w, n, m)
		r.end(ctx, n, rest, r.run(ctx, n.Client, rest))
	}
	return answered
}

// sendApart sends each call of a torn message alone. The keys of one call may lie on one master, or be all new.
func (r *Store) sendApart(ctx context.Context, n *Node, w *Writer, torn *Message) bool {
	first := w.Used
	for i, c := range torn.Order {
		c.Err = nil
		w.Message(&n.Clock).Write(torn.Order[i:i+1], w.Keys)
	}
	return r.sendAll(ctx, n, w, w.Messages[first:w.Used])
}

// runAll sends the messages in one pipeline. Those whose script Redis did not have follow one by one, and, where the
// node is all of a Cluster, those whose slot has moved.
func (r *Store) runAll(ctx context.Context, n *Node, messages []*Message) {
	cluster, ofCluster := n.Client.(*goredis.ClusterClient)
	began := time.Now()
	if ofCluster {
		r.pipeByMaster(ctx, cluster, messages)
	} else {
		r.pipe(ctx, n.Client, messages)
	}
	ended := time.Now()
	for _, m := range messages {
		m.Began, m.Ended = began, ended
		if err := m.Sent.Err(); dial.IsNoScript(err) || ofCluster && dial.IsRedirection(err) {
			_ = r.run(ctx, n.Client, m) // the error is in m.sent
		}
	}
}

// pipe sends messages by their scripts' hashes in one pipeline.
func (r *Store) pipe(ctx context.Context, client goredis.UniversalClient, messages []*Message) {
	pipeline, now := client.Pipeline(), time.Now()
	for _, m := range messages {
		if m.broken != nil {
			m.Command("evalsha", "")
			m.Sent.SetErr(m.broken)
			continue
		}
		m.Command("evalsha", m.script.Sha)
		m.script.SentAt(now)
		_ = pipeline.Process(ctx, m.Sent) // Exec returns a pipeline's errors
	}
	_, _ = pipeline.Exec(ctx) // every command has its own error
}

// pipeByMaster sends each master of a Cluster the messages of its slots, all at once. The pipelines of the Cluster's own
// client would follow redirections to hosts that no node has told.
func (r *Store) pipeByMaster(ctx context.Context, cluster *goredis.ClusterClient, messages []*Message) {
	byMaster := map[*goredis.Client][]*Message{}
	for _, m := range messages {
		master, err := cluster.MasterForKey(ctx, r.Topology.keyIn(m.Order[0].Slot))
		if err != nil {
			m.Command("evalsha", "")
			m.Sent.SetErr(err)
			continue
		}
		byMaster[master] = append(byMaster[master], m)
	}
	var group sync.WaitGroup
	for master, own := range byMaster {
		group.Go(func() { r.pipe(ctx, master, own) })
	}
	group.Wait()
}

// end passes the outcome of a message to its calls. A message that was sent to a master which has
// lost its slot is sent again by way of any node, and the topology learns the slot's new master.
func (r *Store) end(ctx context.Context, n *Node, m *Message, err error) (answered bool) {
	if n != r.Topology.AnyNode && dial.IsRedirection(err) {
		n = r.Topology.AnyNode
		err = r.run(ctx, n.Client, m)
	}
	n.finish(m, err)
	if err == nil && n == r.Topology.AnyNode && r.Topology.cluster != nil {
		r.Topology.Discover()
		r.Topology.learn(m.Order[0].Slot)
	}
	return err == nil
}
