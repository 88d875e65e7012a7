package limiter

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// clusterSlots is how many slots the keys of a Cluster are spread over.
const clusterSlots = 16384

// topology knows which server decides for whom. Without a Cluster that is the one that reaches the
// whole of Redis. On a Cluster each master has a server of its own. The whole, which waits for the
// slowest master, decides there only until the masters are known, and follows redirections.
type topology struct {
	anyNode *node
	cluster *redis.ClusterClient // nil: there is only the whole
	keys    string               // one of two bytes for each slot
	slots   []atomic.Pointer[node]
	known   atomic.Bool // the client has the masters in memory
	loading atomic.Bool
	outages outages
	timeout time.Duration
	send    func(ctx context.Context, s *node, calls []*call) bool
	uses    *references
	recover func(s *node) // runs while a server's breaker is open
	lost    func(err error)
	life    context.Context //nolint:containedctx // ends with the store; those of the servers end with it
	end     context.CancelFunc

	mu      sync.Mutex
	masters map[*redis.Client]*node
}

// start makes the server of the whole.
func (t *topology) start(client redis.UniversalClient) {
	if cluster, ok := client.(*redis.ClusterClient); ok {
		t.cluster = cluster
		t.keys = slotKeys()
		t.slots = make([]atomic.Pointer[node], clusterSlots)
		t.masters = map[*redis.Client]*node{}
	}
	t.life, t.end = context.WithCancel(context.Background())
	t.anyNode = t.newNode(client)
}

// slotKeys are keys that lie in the slots, in the order of these: the client tells a master by a key.
// Two bytes are enough, because CRC16 tells all of them apart.
func slotKeys() string {
	keys := make([]byte, 2*clusterSlots)
	for i := range 1 << 16 {
		key := []byte{byte(i >> 8), byte(i)}
		copy(keys[2*int(slotOfTag(key)):], key)
	}
	return string(keys)
}

func (t *topology) newNode(client redis.UniversalClient) *node {
	s := &node{client: client, failed: t.reload, lost: t.lost}
	s.life, s.end = context.WithCancel(t.life)
	s.batcher.uses, s.batcher.timeout = t.uses, t.timeout
	s.batcher.send = func(ctx context.Context, calls []*call) bool { return t.send(ctx, s, calls) }
	s.opened = func() { go t.recover(s) }
	s.breaker = breaker{now: now, onOpen: t.outages.begin, onClose: t.outages.end}
	return s
}

// reload has the Cluster asked for its masters, in the background.
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

// discover waits until the client knows the masters. From then on each decides for its slots by itself,
// and whether the whole fails matters no more.
func (t *topology) discover() {
	if t.masterOf(0) != nil && !t.known.Swap(true) {
		t.anyNode.retire()
	}
}

// to is the server of a slot. Where that fails perhaps another master has taken over.
func (t *topology) to(slot uint16) *node {
	if t.cluster == nil {
		return t.anyNode
	}
	s := t.slots[slot].Load()
	switch {
	case s != nil && s.breaker.closed():
		return s
	case !t.known.Load():
		return t.anyNode
	case s != nil:
		t.reload()
	}
	return t.learn(slot)
}

// learn finds a slot's master, where the masters are known, and makes its server the slot's. The server
// that was is retired if its master has no slot any more.
func (t *topology) learn(slot uint16) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	client := t.masterOf(slot)
	if client == nil {
		return t.anyNode // where it fails with an error of its own
	}
	s := t.masters[client]
	if s == nil {
		s = t.newNode(client)
		t.masters[client] = s
	}
	before := t.slots[slot].Swap(s)
	if before != nil && before != s {
		t.retireUnlessAsked(before)
	}
	return s
}

// masterOf is the client's word: from memory, where the masters are known. Nil: there is none.
func (t *topology) masterOf(slot uint16) *redis.Client {
	client, err := t.cluster.MasterForKey(context.Background(), t.keys[2*int(slot):][:2])
	if err != nil {
		return nil
	}
	return client
}

// retireUnlessAsked retires a server that has lost a slot, unless its master has another one that
// was asked for. The lock must be held.
func (t *topology) retireUnlessAsked(s *node) {
	client, _ := s.client.(*redis.Client)
	if t.masters[client] != s {
		return // it has been retired
	}
	for slot := range t.slots {
		if t.slots[slot].Load() == s && t.masterOf(uint16(slot)) == client {
			return
		}
	}
	delete(t.masters, client)
	s.retire()
}

// failing tells whether a server is kept from requests, and for how long at the least.
func (t *topology) failing() (bool, time.Duration) {
	if t.outages.failing.Load() == 0 {
		return false, 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	failing, least := t.anyNode.breaker.untilProbe()
	for _, s := range t.masters {
		if open, wait := s.breaker.untilProbe(); open && (!failing || wait < least) {
			failing, least = true, wait
		}
	}
	return failing, least
}

// slotAt returns a slot that the server's master has: the given one, or another where that has moved. A
// master that has none is asked no more, and its server retired.
func (t *topology) slotAt(s *node, slot uint16) (at uint16, found bool) {
	if t.cluster == nil || s == t.anyNode || t.to(slot) == s {
		return slot, true
	}
	client, _ := s.client.(*redis.Client)
	for at := range uint16(clusterSlots) {
		if t.masterOf(at) == client {
			return at, true
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.retireUnlessAsked(s)
	return slot, false
}

// servers returns those that decide now.
func (t *topology) servers() []*node {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.masters) == 0 {
		return []*node{t.anyNode}
	}
	var all []*node
	for _, s := range t.masters {
		all = append(all, s)
	}
	return all
}
