package redis

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
)

// topology finds the node that decides for a slot. Without a Cluster that is AnyNode, a client of
// all of Redis. On a Cluster each master has a node of its own. There AnyNode, which waits for the
// slowest master, decides only until the masters are known, and follows redirections.
type topology struct {
	AnyNode *Node
	cluster *goredis.ClusterClient // nil: there is only AnyNode
	keys    string                 // one of two bytes for each slot
	slots   []atomic.Pointer[Node]
	Known   atomic.Bool // the client has the masters in memory
	loads   clock.Task  // runs Discover
	Outages outages
	timeout time.Duration
	Send    func(ctx context.Context, n *Node, calls []*Call) bool
	uses    *clock.References
	recover func(n *Node) // probes a node whose breaker is open
	lost    func(err error)
	refused func(err error)
	Life    context.Context //nolint:containedctx // ends with the store; those of the nodes end with it
	end     context.CancelFunc

	mu      sync.Mutex
	masters map[*goredis.Client]*Node
}

// start makes AnyNode.
func (t *topology) start(client goredis.UniversalClient) {
	if cluster, ok := client.(*goredis.ClusterClient); ok {
		t.cluster = cluster
		t.keys = SlotKeys()
		t.slots = make([]atomic.Pointer[Node], ClusterSlots)
		t.masters = map[*goredis.Client]*Node{}
	}
	t.Life, t.end = context.WithCancel(context.Background())
	t.loads.Run, t.loads.Life = t.Discover, t.Life
	t.AnyNode = t.newNode(client)
}

// SlotKeys returns a key in each slot, in order: the client finds a master by a key. Two bytes are
// enough, because each slot has some of these by CRC16.
func SlotKeys() string {
	keys := make([]byte, 2*ClusterSlots)
	for i := range 1 << 16 {
		key := []byte{byte(i >> 8), byte(i)}
		copy(keys[2*int(SlotOfTag(key)):], key)
	}
	return string(keys)
}

func (t *topology) newNode(client goredis.UniversalClient) *Node {
	n := &Node{Client: client, Failed: t.Reload, Lost: t.lost}
	n.life, n.end = context.WithCancel(t.Life)
	n.Batcher.Uses, n.Batcher.Timeout, n.Batcher.OnRefused = t.uses, t.timeout, t.refused
	n.Batcher.Send = func(ctx context.Context, calls []*Call) bool { return t.Send(ctx, n, calls) }
	n.Probes.Run, n.Probes.Life = func() { t.recover(n) }, n.life
	n.Breaker = Breaker{Now: clock.Now, OnOpen: t.Outages.begin, OnClose: t.Outages.end}
	return n
}

// Reload queries the Cluster for its masters, in the background.
func (t *topology) Reload() {
	switch {
	case t.cluster == nil:
	case t.Known.Load():
		t.cluster.ReloadState(context.Background())
	default:
		t.loads.Start(0)
	}
}

// Discover waits until the client has the masters. From then on each decides for its slots by
// itself, and failures of AnyNode matter no more.
func (t *topology) Discover() {
	if t.MasterOf(0) == nil || t.Known.Swap(true) {
		return
	}
	var heir *Node
	if cause := t.AnyNode.Cause.Load(); cause != nil {
		heir, _ = t.learn(cause.Slot)
	}
	t.AnyNode.retire(heir)
}

// lastNode returns the node that had a slot last. It never waits.
func (t *topology) lastNode(slot uint16) *Node {
	if t.cluster != nil {
		if n := t.slots[slot].Load(); n != nil {
			return n
		}
	}
	return t.AnyNode
}

// To returns the node of a slot. Where that fails another master may have taken over.
func (t *topology) To(slot uint16) *Node {
	if t.cluster == nil {
		return t.AnyNode
	}
	n := t.slots[slot].Load()
	switch {
	case n != nil && n.Decides():
		return n
	case !t.Known.Load():
		return t.AnyNode
	case n != nil:
		t.Reload()
	}
	if _, n := t.learn(slot); n != nil {
		return n
	}
	return t.AnyNode // fails there with an error of its own
}

// learn finds a slot's master, where the masters are known, and makes its node the slot's: a new one if the master had
// no slot yet, which is returned as such too. The node before is retired if its master has no slot any more. Nil: the
// slot has no master.
func (t *topology) learn(slot uint16) (made, n *Node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	client := t.MasterOf(slot)
	if client == nil {
		return nil, nil
	}
	n = t.masters[client]
	if n == nil {
		made = t.newNode(client)
		n, t.masters[client] = made, made
	}
	before := t.slots[slot].Swap(n)
	if before != nil && before != n {
		t.retireUnlessUsed(before, made)
	}
	return made, n
}

// keyIn returns a key in a slot of a Cluster.
func (t *topology) keyIn(slot uint16) string { return t.keys[2*int(slot):][:2] }

// MasterOf returns the master of a slot by the client, from memory where the masters are known. Nil:
// there is none.
func (t *topology) MasterOf(slot uint16) *goredis.Client {
	client, err := t.cluster.MasterForKey(context.Background(), t.keyIn(slot))
	if err != nil {
		return nil
	}
	return client
}

// retireUnlessUsed retires a node that has lost a slot, unless its master has another one in use, for a new node to take
// its place; nil: there is none. The lock must be held.
func (t *topology) retireUnlessUsed(n, heir *Node) {
	client, _ := n.Client.(*goredis.Client)
	if t.masters[client] != n {
		return // already retired
	}
	for slot := range t.slots {
		if t.slots[slot].Load() == n && t.MasterOf(uint16(slot)) == client {
			return
		}
	}
	delete(t.masters, client)
	n.retire(heir)
}

// Failing reports whether a node's breaker is open, and for how long at least.
func (t *topology) Failing() (bool, time.Duration) {
	if t.Outages.Failing.Load() == 0 {
		return false, 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	failing, least := t.AnyNode.Breaker.untilProbe()
	for _, n := range t.masters {
		if open, wait := n.Breaker.untilProbe(); open && (!failing || wait < least) {
			failing, least = true, wait
		}
	}
	return failing, least
}

// slotAt returns a slot that the node's master has: the given one, or another where that has moved.
// The node of a master without slots is retired.
func (t *topology) slotAt(n *Node, slot uint16) (at uint16, found bool) {
	if t.cluster == nil || n == t.AnyNode || t.To(slot) == n {
		return slot, true
	}
	client, _ := n.Client.(*goredis.Client)
	for at := range uint16(ClusterSlots) {
		if t.MasterOf(at) == client {
			return at, true
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.retireUnlessUsed(n, nil)
	return slot, false
}

// Nodes returns those that decide now.
func (t *topology) Nodes() []*Node {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.masters) == 0 {
		return []*Node{t.AnyNode}
	}
	var all []*Node
	for _, n := range t.masters {
		all = append(all, n)
	}
	return all
}
