package limiter

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
)

// topology finds the node that decides for a slot. Without a Cluster that is anyNode, a client of
// all of Redis. On a Cluster each master has a node of its own. There anyNode, which waits for the
// slowest master, decides only until the masters are known, and follows redirections.
type topology struct {
	anyNode *node
	cluster *goredis.ClusterClient // nil: there is only anyNode
	keys    string                 // one of two bytes for each slot
	slots   []atomic.Pointer[node]
	known   atomic.Bool // the client has the masters in memory
	loading atomic.Bool
	outages outages
	timeout time.Duration
	send    func(ctx context.Context, n *node, calls []*call) bool
	uses    *references
	recover func(n *node) // runs while a node's breaker is open
	lost    func(err error)
	refused func(err error)
	life    context.Context //nolint:containedctx // ends with the store; those of the nodes end with it
	end     context.CancelFunc

	mu      sync.Mutex
	masters map[*goredis.Client]*node
}

// start makes anyNode.
func (t *topology) start(client goredis.UniversalClient) {
	if cluster, ok := client.(*goredis.ClusterClient); ok {
		t.cluster = cluster
		t.keys = slotKeys()
		t.slots = make([]atomic.Pointer[node], clusterSlots)
		t.masters = map[*goredis.Client]*node{}
	}
	t.life, t.end = context.WithCancel(context.Background())
	t.anyNode = t.newNode(client)
}

// slotKeys returns a key in each slot, in order: the client finds a master by a key. Two bytes are
// enough, because CRC16 tells all of them apart.
func slotKeys() string {
	keys := make([]byte, 2*clusterSlots)
	for i := range 1 << 16 {
		key := []byte{byte(i >> 8), byte(i)}
		copy(keys[2*int(slotOfTag(key)):], key)
	}
	return string(keys)
}

func (t *topology) newNode(client goredis.UniversalClient) *node {
	n := &node{client: client, failed: t.reload, lost: t.lost}
	n.life, n.end = context.WithCancel(t.life)
	n.batcher.uses, n.batcher.timeout, n.batcher.onRefused = t.uses, t.timeout, t.refused
	n.batcher.send = func(ctx context.Context, calls []*call) bool { return t.send(ctx, n, calls) }
	n.opened = func() { go t.recover(n) }
	n.breaker = breaker{now: clock.Now, onOpen: t.outages.begin, onClose: t.outages.end}
	return n
}

// reload queries the Cluster for its masters, in the background.
func (t *topology) reload() {
	switch {
	case t.cluster == nil:
	case t.known.Load():
		t.cluster.ReloadState(context.Background())
	case t.loading.CompareAndSwap(false, true):
		go func() {
			defer t.loading.Store(false)
			t.discover()
		}()
	}
}

// discover waits until the client has the masters. From then on each decides for its slots by
// itself, and failures of anyNode matter no more.
func (t *topology) discover() {
	if t.masterOf(0) != nil && !t.known.Swap(true) {
		t.anyNode.retire()
	}
}

// lastNode returns the node that had a slot last. It never waits.
func (t *topology) lastNode(slot uint16) *node {
	if t.cluster != nil {
		if n := t.slots[slot].Load(); n != nil {
			return n
		}
	}
	return t.anyNode
}

// to returns the node of a slot. Where that fails another master may have taken over.
func (t *topology) to(slot uint16) *node {
	if t.cluster == nil {
		return t.anyNode
	}
	n := t.slots[slot].Load()
	switch {
	case n != nil && n.decides():
		return n
	case !t.known.Load():
		return t.anyNode
	case n != nil:
		t.reload()
	}
	return t.learn(slot)
}

// learn finds a slot's master, where the masters are known, and makes its node the slot's. The node
// before is retired if its master has no slot any more.
func (t *topology) learn(slot uint16) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	client := t.masterOf(slot)
	if client == nil {
		return t.anyNode // fails there with an error of its own
	}
	n := t.masters[client]
	if n == nil {
		n = t.newNode(client)
		t.masters[client] = n
	}
	before := t.slots[slot].Swap(n)
	if before != nil && before != n {
		t.retireUnlessUsed(before)
	}
	return n
}

// masterOf returns the master of a slot by the client, from memory where the masters are known. Nil:
// there is none.
func (t *topology) masterOf(slot uint16) *goredis.Client {
	client, err := t.cluster.MasterForKey(context.Background(), t.keys[2*int(slot):][:2])
	if err != nil {
		return nil
	}
	return client
}

// retireUnlessUsed retires a node that has lost a slot, unless its master has another one in use.
// The lock must be held.
func (t *topology) retireUnlessUsed(n *node) {
	client, _ := n.client.(*goredis.Client)
	if t.masters[client] != n {
		return // already retired
	}
	for slot := range t.slots {
		if t.slots[slot].Load() == n && t.masterOf(uint16(slot)) == client {
			return
		}
	}
	delete(t.masters, client)
	n.retire()
}

// failing reports whether a node's breaker is open, and for how long at least.
func (t *topology) failing() (bool, time.Duration) {
	if t.outages.failing.Load() == 0 {
		return false, 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	failing, least := t.anyNode.breaker.untilProbe()
	for _, n := range t.masters {
		if open, wait := n.breaker.untilProbe(); open && (!failing || wait < least) {
			failing, least = true, wait
		}
	}
	return failing, least
}

// slotAt returns a slot that the node's master has: the given one, or another where that has moved.
// The node of a master without slots is retired.
func (t *topology) slotAt(n *node, slot uint16) (at uint16, found bool) {
	if t.cluster == nil || n == t.anyNode || t.to(slot) == n {
		return slot, true
	}
	client, _ := n.client.(*goredis.Client)
	for at := range uint16(clusterSlots) {
		if t.masterOf(at) == client {
			return at, true
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.retireUnlessUsed(n)
	return slot, false
}

// nodes returns those that decide now.
func (t *topology) nodes() []*node {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.masters) == 0 {
		return []*node{t.anyNode}
	}
	var all []*node
	for _, n := range t.masters {
		all = append(all, n)
	}
	return all
}
