package reliability

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// leaseLimit is never used up, in a window that ends in another year.
const leaseLimit = 100_000

// leasingConfig leases units of tenants.
func leasingConfig(server *redistest.Server) string {
	site := fmt.Sprintf("redis_ratelimit {header.X-Tenant} %d 400d {\nname tenant\nalgorithm fixed_window\nlease\n}%s", leaseLimit, caddytest.ShowDecision)
	return caddytest.Quietly(caddytest.Config(caddytest.PatientRedis(server), site))
}

// startLeasing starts two nodes on a Redis, for a test beside others.
func startLeasing(t *testing.T) (n, other *caddytest.Node, server *redistest.Server) {
	t.Helper()
	t.Parallel()
	server = redistest.Start(t)
	return caddytest.Start(t, leasingConfig(server)), caddytest.Start(t, leasingConfig(server)), server
}

// leased is what a node knows of tenant a.
type leased struct {
	Remaining int64
	Leased    struct{ Units int64 }
}

func leasedBy(t *testing.T, n *caddytest.Node) leased {
	t.Helper()
	return caddytest.State[leased](t, n, "tenant", "a")
}

// hold makes requests of tenant a until the node holds units, and returns how many requests that were and how
// many units it holds.
func hold(t *testing.T, n *caddytest.Node) (requests, units int64) {
	t.Helper()
	for requests = 1; requests < 5000; requests++ {
		if a := n.Get(t, "/", "X-Tenant: a"); a.Status != http.StatusOK {
			t.Fatalf("got %v", a)
		} else if a.Body != "allowed lease" {
			continue
		}
		if units = leasedBy(t, n).Leased.Units; units > 0 {
			return requests, units
		}
	}
	t.Fatal("the node holds nothing")
	return 0, 0
}

// TestLease_stop stops a node that holds units. They are back when the process has ended.
func TestLease_stop(t *testing.T) {
	n, other, _ := startLeasing(t)
	requests, units := hold(t, n)
	n.Stop(t)
	got := leasedBy(t, other).Remaining
	assert.ErrorIf(t, got != leaseLimit-requests, "%d units are used after %d requests and the end of a node that held %d", leaseLimit-got, requests, units)
}

// TestLease_kill kills a node at once. What it held counts as used, and no more than that.
func TestLease_kill(t *testing.T) {
	n, other, _ := startLeasing(t)
	requests, units := hold(t, n)
	_ = n.Command.Process.Kill() // its end is awaited by Stop
	n.Stop(t)
	used := leaseLimit - leasedBy(t, other).Remaining
	assert.ErrorIf(t, used < requests || used > requests+2*max(units, 200), "%d units are used after %d requests and the death of a node that held %d", used, requests, units)
	other.Get(t, "/", "X-Tenant: a").Want(t, http.StatusOK, caddytest.Any)
}

// tenants are clients that send requests of tenant a until they are stopped.
type tenants struct {
	// admitted counts what Redis or a lease has let pass, byLease those of a lease. What cut counts may be
	// counted on Redis or not: those requests found a connection, or a store, that a reload had just closed.
	admitted, byLease, cut atomic.Int64
	stop                   func()
}

// startTenants starts eight clients of the nodes.
func startTenants(t *testing.T, nodes ...*caddytest.Node) *tenants {
	t.Helper()
	var c tenants
	var over atomic.Bool
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			n := nodes[i%len(nodes)]
			for !over.Load() {
				a, err := n.Try(http.MethodGet, n.URL+"/", "", "X-Tenant: a")
				switch {
				case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), a.Body == "allowed fallback":
					c.cut.Add(1)
				case err != nil || a.Body != "allowed lease" && a.Body != "allowed redis":
					t.Errorf("got %v, %v", a, err)
					return
				default:
					c.admitted.Add(1)
					if a.Body == "allowed lease" {
						c.byLease.Add(1)
					}
				}
			}
		})
	}
	c.stop = func() { over.Store(true); group.Wait() }
	t.Cleanup(c.stop)
	return &c
}

// awaitLeases waits until leases have decided some more requests.
func (c *tenants) awaitLeases(t *testing.T) {
	t.Helper()
	until := c.byLease.Load() + 10
	assert.Retry(t, "leases decide", func() (again bool, seen any) {
		n := c.byLease.Load()
		return n < until, fmt.Sprintf("leases have decided %d requests; want %d", n, until)
	})
}

// checkUsed stops the tenants. Redis has decided all their requests, by leases too, and exactly the admitted
// units are used, those before them included.
func (c *tenants) checkUsed(t *testing.T, n *caddytest.Node, before int64) {
	t.Helper()
	c.stop()
	assert.Equal(t, c.cut.Load(), 0, "the number of requests that Redis did not decide")
	n.WaitForRefund(t, "tenant", "a", leaseLimit-c.admitted.Load()-before)
}

// TestLease_reloads reloads a node under load, with other settings of the policy and of the store in turn. In
// the end exactly the admitted units are used, and nothing of the old configurations is left.
func TestLease_reloads(t *testing.T) {
	n, other, server := startLeasing(t)
	config := leasingConfig(server)
	first, _ := hold(t, n)
	n.Reload(t, config+"\n")
	goroutines := n.Goroutines(t)
	clients := startTenants(t, n, other)
	for i := range 24 {
		text := strings.Replace(config, "lease\n", fmt.Sprintf("lease %dms\n", 100+i), 1)
		n.Reload(t, strings.Replace(text, "timeout 10s", fmt.Sprintf("timeout %ds", 10+i/2%2), 1))
		clients.awaitLeases(t)
	}
	clients.stop()
	admitted, cut := clients.admitted.Load(), clients.cut.Load()
	assert.Retry(t, "units are given back", func() (again bool, seen any) {
		used := leaseLimit - leasedBy(t, other).Remaining - first
		return used < admitted || used > admitted+cut, fmt.Sprintf("%d units are used; want %d, and at most %d more", used, admitted, cut)
	})
	awaitGoroutines(t, n, goroutines+4)
}

// TestLease_faults drops the scripts, pauses Redis and kills it while units are held. Where it has decided all
// the time, exactly the admitted units are used.
func TestLease_faults(t *testing.T) {
	n, other, server := startLeasing(t)
	client := server.Client(t)
	clients := startTenants(t, n, other)
	for range 10 {
		assert.Must(t, client.ScriptFlush(t.Context()).Err())
		server.Pause(t)
		<-time.After(20 * time.Millisecond) // what is held may be spent
		server.Resume(t)
		clients.awaitLeases(t)
	}
	clients.checkUsed(t, n, 0)

	hold(t, n)
	server.Kill()
	n.Get(t, "/", "X-Tenant: a").Want(t, 0, "allowed *")
}

// TestLease_clock steps Redis's clock ahead and back while units are held, within a window. Exactly the admitted
// units are used.
func TestLease_clock(t *testing.T) {
	t.Parallel()
	server, step := redistest.StartStepping(t)
	n, other := caddytest.Start(t, leasingConfig(server)), caddytest.Start(t, leasingConfig(server))
	first, _ := hold(t, n)
	clients := startTenants(t, n, other)
	for _, ahead := range []time.Duration{10 * time.Second, -10 * time.Second, time.Hour, 0, -time.Hour, 0} {
		step(ahead)
		clients.awaitLeases(t)
	}
	clients.checkUsed(t, n, first)
}

// TestLease_elsewhere has another node reset and block a key whose units are held. That applies within the
// second that a lease may last.
func TestLease_elsewhere(t *testing.T) {
	n, other, _ := startLeasing(t)
	hold(t, n)
	other.Ratelimit(t, "reset", "--policy", "tenant", "--key", "a").Want(t, 0, "")
	n.WaitForRefund(t, "tenant", "a", leaseLimit)

	hold(t, n)
	other.Override(t, http.StatusOK, `{"policy":"tenant","key":"a","block":true}`)
	began := time.Now()
	assert.Retry(t, "the key is blocked", func() (again bool, seen any) {
		a := n.Get(t, "/", "X-Tenant: a")
		return a.Status != http.StatusTooManyRequests, a
	})
	t.Logf("blocked elsewhere after %v", time.Since(began))
	assert.Equal(t, leasedBy(t, n).Leased.Units, 0, "the number of held units of a blocked key")
}
