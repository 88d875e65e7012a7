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
// whole of Redis. On a Cluster that one follows every redirection, but waits for the slowest
// master; once a slot was reached by it, its master's own server is asked.
type routes struct {
	whole   *server
	cluster *redis.ClusterClient // nil: there is only the whole
	slots   []atomic.Pointer[server]
	outages outages
	send    func(ctx context.Context, s *server, calls []*call) bool

	mu      sync.Mutex
	masters map[*redis.Client]*server
}

// start makes the server of the whole.
func (r *routes) start(client redis.UniversalClient) {
	if cluster, ok := client.(*redis.ClusterClient); ok {
		r.cluster = cluster
		r.slots = make([]atomic.Pointer[server], clusterSlots)
		r.masters = map[*redis.Client]*server{}
	}
	r.whole = r.newServer(client)
}

func (r *routes) newServer(client redis.UniversalClient) *server {
	s := &server{client: client, failed: r.reload}
	s.batcher.send = func(ctx context.Context, calls []*call) bool { return r.send(ctx, s, calls) }
	s.breaker = breaker{now: time.Now, onOpen: r.outages.begin, onClose: r.outages.end}
	return s
}

// reload has the Cluster's masters asked for, in the background.
func (r *routes) reload() {
	if r.cluster != nil {
		r.cluster.ReloadState(context.Background())
	}
}

// to is the server of a slot. The name, of a key in it, is asked for where the server fails: perhaps
// another master has taken over.
func (r *routes) to(slot uint16, name func() string) *server {
	if r.cluster == nil {
		return r.whole
	}
	s := r.slots[slot].Load()
	switch {
	case s == nil:
		return r.whole
	case s.breaker.closed() && !s.retired.Load():
		return s
	}
	r.reload()
	return r.learn(slot, name(), s)
}

// learn finds a slot's master, whose masters are known, and makes its server the slot's. A server
// that fails and whose slot has another master now is retired.
func (r *routes) learn(slot uint16, name string, before *server) *server {
	client, err := r.cluster.MasterForKey(context.Background(), name)
	if err != nil {
		return r.whole // where it fails with an error of its own
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.masters[client]
	if s == nil {
		s = r.newServer(client)
		r.masters[client] = s
	}
	if before != nil && before != s {
		delete(r.masters, before.master())
		before.retired.Store(true)
		before.breaker.giveUp()
	}
	r.slots[slot].Store(s)
	return s
}

// master is the client of one of a Cluster's masters.
func (s *server) master() *redis.Client {
	client, _ := s.client.(*redis.Client)
	return client
}

// forget has the next request to a slot find its master anew.
func (r *routes) forget(slot uint16) { r.slots[slot].Store(nil) }

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
