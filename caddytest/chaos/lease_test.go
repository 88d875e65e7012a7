package chaos

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// rushLimit units may pass in a rushWindow, a bucket's burst included. A client sends a request each rushPause, or as
// soon as the last one is answered. In the short suite twenty requests a second reach the limit, which a core that is
// busy sends too.
var (
	rushLimit  = lasting(1000, 80)
	rushWindow = lasting(10*time.Second, 4*time.Second)
	rushPause  = lasting(time.Microsecond, 10*time.Millisecond)
)

const (
	// rushClients send requests at once, all of them to one policy for a rushTurn.
	rushClients = 12
	rushTurn    = 250 * time.Millisecond
)

// rushAlgorithms take turns. The buckets have one rule.
var rushAlgorithms = []string{"fixed_window", "sliding_window_counter", "sliding_window_log", "token_bucket"}

// rush is what clients of one hot key of a policy were admitted by several nodes that lease.
type rush struct {
	rule
	mu     sync.Mutex
	passed []passing
	leased int
	denied int
}

// TestChaos_lease has nodes that lease decide a hot key of each algorithm, while one of them is killed and Redis
// is paused. In no span more is admitted than the algorithm would without leases.
func TestChaos_lease(t *testing.T) {
	beside(t)
	server := redistest.Start(t)
	site := ""
	rushes := map[string]*rush{}
	for _, algorithm := range rushAlgorithms {
		site += fmt.Sprintf("redis_ratelimit /%s {\nname %[1]s\nkey hot\nlimit %d\nwindow %v\nalgorithm %[1]s\nlease\n}\n", algorithm, rushLimit, rushWindow)
		rushes[algorithm] = &rush{rule: rule{algorithm, rushLimit, rushLimit, rushWindow}}
	}
	config := caddytest.Quietly(caddytest.Config(caddytest.RedisAt(server.Addr, "timeout 10s\nfail_mode closed"), site+caddytest.ShowDecision))
	var nodes []*caddytest.Node
	for range 3 {
		nodes = append(nodes, caddytest.Start(t, config))
	}
	var killed atomic.Bool
	var only atomic.Pointer[string] // the algorithm of all requests, empty for none; nil: they take turns
	var clients load
	clients.start(t, rushClients, rushPause, func(client int) func() {
		n := nodes[client%len(nodes)]
		return func() {
			algorithm := rushAlgorithms[time.Now().UnixMilli()/rushTurn.Milliseconds()%int64(len(rushAlgorithms))]
			if chosen := only.Load(); chosen != nil {
				algorithm = *chosen
			}
			if algorithm != "" && !rushes[algorithm].request(t, n, "/"+algorithm) {
				assert.ErrorIf(t, n != nodes[2] || !killed.Load(), "a node that was not killed has not answered")
				n = nodes[0]
			}
		}
	})
	hold := func(by time.Duration) { <-time.After(by) }
	hold(rushWindow / 2)
	server.Pause(t)
	hold(rushWindow / 100) // what is held may be spent, and ends
	server.Resume(t)
	hold(rushWindow / 10)
	killed.Store(true)
	_ = nodes[2].Command.Process.Kill()
	hold(rushWindow/2 + stormPhase())
	for _, algorithm := range rushAlgorithms {
		shown := func() error { return shows(rushes, algorithm) }
		if shown() == nil {
			continue // usually
		}
		only.Store(new(""))
		hold(rushWindow) // a log that is full leases nothing
		only.Store(&algorithm)
		assert.WaitFor(t, algorithm+" leases and denies", shown)
	}
	clients.end()
	lines := "algorithm | admitted | by leases | denied | most in a span / bound"
	for _, algorithm := range rushAlgorithms {
		r := rushes[algorithm]
		worst, bound := r.worst(r.passed)
		lines += fmt.Sprintf("\n%s | %d | %d | %d | %d / %d", algorithm, len(r.passed), r.leased, r.denied, worst, bound)
		assert.ErrorIf(t, worst > bound, "%s: %d units passed in a span that may hold %d", algorithm, worst, bound)
	}
	t.Logf("\n%s", aligned(lines))
}

// shows returns an error where too little of an algorithm was leased or nothing denied, so that the test shows
// nothing yet. With the short window a lease lasts 20 ms to 40 ms, which a busy machine may need to answer, and one
// core may take long to reach a limit while other tests run: one lease and one denial of any algorithm are enough.
func shows(rushes map[string]*rush, algorithm string) error {
	leased, denied := rushes[algorithm].counts()
	least := lasting(rushLimit/10, 1)
	if least == 1 {
		for _, r := range rushes {
			leasedByIt, deniedByIt := r.counts()
			leased, denied = max(leased, leasedByIt), max(denied, deniedByIt)
		}
	}
	if leased < least || denied == 0 {
		return fmt.Errorf("%d requests were decided by leases, %d denied", leased, denied)
	}
	return nil
}

// counts returns how many requests were decided by leases, and how many were denied.
func (r *rush) counts() (leased, denied int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leased, r.denied
}

// request sends one request and notes what came of it. It returns false where the node is gone.
func (r *rush) request(t *testing.T, n *caddytest.Node, path string) bool {
	began := time.Now()
	a, err := n.Try(http.MethodGet, n.URL+path, "")
	ended := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil:
		return false
	case a.Body == "allowed redis" || a.Body == "allowed lease":
		r.passed = append(r.passed, passing{began, ended})
		if a.Body == "allowed lease" {
			r.leased++
		}
	case strings.HasPrefix(a.Body, "denied "):
		r.denied++
	default:
		t.Errorf("%s: got %v", path, a)
	}
	return true
}
