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

// routes knows which server decides for whom. Without a Cluster that is the one that reaches the
// whole of Redis. On a Cluster each master has a server of its own. The whole, which waits for the
// slowest master, decides there only until the masters are known, and follows redirections.
type routes struct {
	whole   *server
	cluster *redis.ClusterClient // nil: there is only the whole
	keys    string               // one of two bytes for each slot
	slots   []atomic.Pointer[server]
	known   atomic.Bool // the client has the masters in memory
	loading atomic.Bool
	outages outages
	timeout time.Duration
	send    func(ctx context.Context, s *server, calls []*call) bool
	uses    *references
	recover func(s *server) // runs while a server's breaker is open
	lost    func(err error)
	life    context.Context //nolint:containedctx // ends with the store; those of the servers end with it
	end     context.CancelFunc

	mu      sync.Mutex
	masters map[*redis.Client]*server
}

// start makes the server of the whole.
func (r *routes) start(client redis.UniversalClient) {
	if cluster, ok := client.(*redis.ClusterClient); ok {
		r.cluster = cluster
		r.keys = slotKeys()
		r.slots = make([]atomic.Pointer[server], clusterSlots)
		r.masters = map[*redis.Client]*server{}
	}
	r.life, r.end = context.WithCancel(context.Background())
	r.whole = r.newServer(client)
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

func (r *routes) newServer(client redis.UniversalClient) *server {
	s := &server{client: client, failed: r.reload, lost: r.lost}
	s.life, s.end = context.WithCancel(r.life)
	s.batcher.uses, s.batcher.timeout = r.uses, r.timeout
	s.batcher.send = func(ctx context.Context, calls []*call) bool { return r.send(ctx, s, calls) }
	s.opened = func() { go r.recover(s) }
	s.breaker = breaker{now: now, onOpen: r.outages.begin, onClose: r.outages.end}
	return s
}

// reload has the Cluster asked for its masters, in the background.
func (r *routes) reload() {
	switch {
	case r.cluster == nil:
	case r.known.Load():
		r.cluster.ReloadState(context.Background())
	case r.loading.CompareAndSwap(false, true):
		go func() {
			defer r.loading.Store(false)
			r.know()
		}()
	}
}

// know waits until the client knows the masters. From then on each decides for its slots by itself,
// and whether the whole fails matters no more.
func (r *routes) know() {
	if r.masterOf(0) != nil && !r.known.Swap(true) {
		r.whole.retire()
	}
}

// to is the server of a slot. Where that fails perhaps another master has taken over.
func (r *routes) to(slot uint16) *server {
	if r.cluster == nil {
		return r.whole
	}
	s := r.slots[slot].Load()
	switch {
	case s != nil && s.breaker.closed():
		return s
	case !r.known.Load():
		return r.whole
	case s != nil:
		r.reload()
	}
	return r.learn(slot)
}

// learn finds a slot's master, where the masters are known, and makes its server the slot's. The server
// that was is retired if its master has no slot any more.
func (r *routes) learn(slot uint16) *server {
	r.mu.Lock()
	defer r.mu.Unlock()
	client := r.masterOf(slot)
	if client == nil {
		return r.whole // where it fails with an error of its own
	}
	s := r.masters[client]
	if s == nil {
		s = r.newServer(client)
		r.masters[client] = s
	}
	before := r.slots[slot].Swap(s)
	if before != nil && before != s {
		r.retireUnlessAsked(before)
	}
	return s
}

// masterOf is the client's word: from memory, where the masters are known. Nil: there is none.
func (r *routes) masterOf(slot uint16) *redis.Client {
	client, err := r.cluster.MasterForKey(context.Background(), r.keys[2*int(slot):][:2])
	if err != nil {
		return nil
	}
	return client
}

// retireUnlessAsked retires a server that has lost a slot, unless its master has another one that
// was asked for. The lock must be held.
func (r *routes) retireUnlessAsked(s *server) {
	client, _ := s.client.(*redis.Client)
	if r.masters[client] != s {
		return // it has been retired
	}
	for slot := range r.slots {
		if r.slots[slot].Load() == s && r.masterOf(uint16(slot)) == client {
			return
		}
	}
	delete(r.masters, client)
	s.retire()
}

// failing tells whether a server is kept from requests, and for how long at the least.
func (r *routes) failing() (bool, time.Duration) {
	if r.outages.failing.Load() == 0 {
		return false, 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	failing, least := r.whole.breaker.untilProbe()
	for _, s := range r.masters {
		if open, wait := s.breaker.untilProbe(); open && (!failing || wait < least) {
			failing, least = true, wait
		}
	}
	return failing, least
}

// slotAt returns a slot that the server's master has: the given one, or another where that has moved. A
// master that has none is asked no more, and its server retired.
func (r *routes) slotAt(s *server, slot uint16) (at uint16, found bool) {
	if r.cluster == nil || s == r.whole || r.to(slot) == s {
		return slot, true
	}
	client, _ := s.client.(*redis.Client)
	for at := range uint16(clusterSlots) {
		if r.masterOf(at) == client {
			return at, true
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.retireUnlessAsked(s)
	return slot, false
}

// servers returns those that decide now.
func (r *routes) servers() []*server {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.masters) == 0 {
		return []*server{r.whole}
	}
	var all []*server
	for _, s := range r.masters {
		all = append(all, s)
	}
	return all
}
