package chaos

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

const (
	// soakClients send requests at once, each to one node.
	soakClients = 12

	// soakSettle is how long after a fault its traces may last: a window, and the second within which nodes learn
	// of an override.
	soakSettle = 1200 * time.Millisecond

	// soakLength is how long faults follow one another where SOAK=long is set.
	soakLength = 14 * time.Minute
)

// isSoak reports whether SOAK=long is set. The test then has the machine for itself.
func isSoak() bool { return redistest.Rounds(0, 1) == 1 }

// soak is three nodes with all features on a master with replicas and sentinels, and a backend that notes what
// reaches it.
type soak struct {
	group    *group
	nodes    [3]atomic.Pointer[caddytest.Node]
	leaving  [3]atomic.Bool // a node is stopped or reloaded: it may reset connections
	numbers  [3]int         // of the nodes' processes
	started  int            // processes of Caddy so far
	rounds   int            // reloads so far
	backend  string
	warnings int // in the logs of nodes that were stopped
	faults   []span
	vip      int // the limit by the override

	ran             int // at once, in the last calm span
	elsewhere, full int // in calm spans: requests that passed without Redis, and windows that are full

	over    chan struct{}
	clients sync.WaitGroup
	turns   [soakClients]atomic.Int64 // requests that each client has ended
	stop    sync.Once

	mu            sync.Mutex
	accounts      map[string]*account
	running, most int // at the backend; most: since the last look
	wrong         int
	complaint     string // the first wrong response
}

// TestSoak uses all features at once while one fault follows another. In calm spans between them each limit is
// exact; in a fault each process of Caddy may admit a limit by itself, and each failover may lose one.
func TestSoak(t *testing.T) {
	beside(t)
	s := &soak{accounts: map[string]*account{}, over: make(chan struct{}), vip: vipLimit}
	for _, f := range features {
		s.accounts[f.name] = &account{}
	}
	s.backend = caddytest.Serve(t, s.serve)
	s.group = startGroup(t)
	for i := range s.nodes {
		s.start(t, i)
	}
	used, stalled := s.used(t), redistest.WatchStalls(t)
	s.begin(t)
	for i, began := 0, time.Now(); i == 0 || isSoak() && !t.Failed() && time.Since(began) < soakLength; i++ {
		s.cycle(t, i)
	}
	if isSoak() {
		s.calm(t, 12*time.Second) // has a whole window of each feature
	}
	s.end()
	s.checkFaults(t)
	s.check(t, stalled())
	s.checkUsed(t, used)
	t.Logf("%d faults, %d processes of Caddy, %d reloads, %d warnings, %d full windows; %d requests passed without Redis between faults\n%s",
		len(s.faults), s.started, s.rounds, s.warnings, s.full, s.elsewhere, s.table())
}

// cycle has a fault happen, heals, and checks a calm span.
func (s *soak) cycle(t *testing.T, i int) {
	t.Helper()
	fault := soakFaults[i%len(soakFaults)]
	if i >= len(soakFaults) {
		fault = soakFaults[rand.IntN(len(soakFaults))]
	}
	from := time.Now()
	fault.happen(t, s, s.group.settled(t))
	s.heal(t)
	s.mu.Lock()
	s.faults = append(s.faults, span{from, time.Now()})
	s.mu.Unlock()
	s.override(t, i)
	s.calm(t, 2200*time.Millisecond)
	if t.Failed() {
		t.Errorf("this was after: %s", fault.name)
	}
}

// calm waits until the traces of a fault are gone, and checks the time that follows.
func (s *soak) calm(t *testing.T, length time.Duration) {
	t.Helper()
	master, stalled := s.group.master(0), redistest.WatchStalls(t)
	<-time.After(soakSettle)
	s.look()
	from := time.Now()
	<-time.After(length)
	calm := span{from, time.Now()}
	s.awaitTurns(t)
	if now := s.group.master(0); now != master {
		t.Logf("the sentinels replaced master %d by %d only now", master, now)
		s.faults = append(s.faults, span{from.Add(-soakSettle), calm.to})
		return
	}
	s.checkCalm(t, calm, stalled())
}

// override sets another limit of a key, through each node in turn, and waits until all know it.
func (s *soak) override(t *testing.T, i int) {
	t.Helper()
	limit := vipLimit * (2 - i%2)
	a := s.nodes[i%3].Load().Ask(t, http.MethodPost, "override", fmt.Sprintf(`{"policy":"vip","key":"hot","limit":%d}`, limit))
	if a.Status != http.StatusOK {
		t.Errorf("no override was set: %v", a)
		return
	}
	s.vip = limit
}

// start starts a node in a place, and lets the load through to it once its overrides hold.
func (s *soak) start(t *testing.T, i int) {
	t.Helper()
	s.started++
	s.numbers[i] = s.started
	n := caddytest.Start(t, s.config(s.started))
	if s.started == 1 {
		if a := n.Ask(t, http.MethodPost, "override", `{"policy":"blocked","key":"hot","block":true}`); a.Status != http.StatusOK {
			t.Fatalf("got %v", a)
		}
	}
	redistest.WaitFor(t, "the overrides hold", func() error {
		if a := n.Get(t, "/blocked"); a.Body != "denied override" {
			return fmt.Errorf("got %v", a)
		}
		return nil
	})
	redistest.WaitFor(t, "Redis decides", func() error {
		if a := n.Get(t, "/ready"); a.Body != "redis" {
			return fmt.Errorf("got %v", a)
		}
		return nil
	})
	s.nodes[i].Store(n)
	s.leaving[i].Store(false)
}
