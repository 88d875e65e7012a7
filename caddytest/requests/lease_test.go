package requests

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// leasingSite leases units of tenants.
const leasingSite = `redis_ratelimit {header.X-Tenant} 100000 400d {
	name tenant
	algorithm fixed_window
	lease
}
` + caddytest.ShowDecision

// leaseOf makes requests of a tenant until the node decides one by a lease, and returns how many that took.
func leaseOf(t *testing.T, n *caddytest.Node, tenant string) (requests int64) {
	t.Helper()
	for requests = 1; requests < 2000; requests++ {
		a := n.Get(t, "/", "X-Tenant: "+tenant)
		caddytest.CheckQuota(t, a, 100_000, 100_000-requests)
		if a.Body == "allowed lease" {
			return requests
		}
	}
	t.Fatal("no request was decided by a lease")
	return 0
}

// showsLease keeps tenant b busy until the node and its command show what is held.
func showsLease(t *testing.T, n *caddytest.Node) {
	t.Helper()
	over := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
			}
			if a, err := n.Try(http.MethodGet, n.URL+"/", "", "X-Tenant: b"); err != nil || a.Status != http.StatusOK {
				t.Errorf("got %v, %v", a, err)
				return
			}
		}
	})
	defer group.Wait()
	defer close(over)
	redistest.WaitFor(t, "the state has a lease", func() error {
		state := n.Ask(t, http.MethodPost, "state", `{"policy":"tenant","key":"b"}`)
		leased := caddytest.ParseJSON[struct {
			Leased struct {
				Units int64
				Lasts float64
			}
		}](t, state).Leased
		if leased.Units < 1 || leased.Lasts <= 0 || leased.Lasts > 1 {
			return fmt.Errorf("state of a leased key: %v", state)
		}
		return nil
	})
	redistest.WaitFor(t, "the command shows a lease", func() error {
		ending := n.Ratelimit(t, "state", "--policy", "tenant", "--key", "b")
		if ending.Code != 0 || !strings.Contains(ending.Stdout, "by this node, for") {
			return fmt.Errorf("got %v", ending)
		}
		return nil
	})
}

// TestLease has a node decide requests of a busy tenant by itself, with the same quota in every header, and
// shows what it holds.
func TestLease(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	config := caddytest.Config(caddytest.PatientRedis(server), leasingSite)
	n, other := caddytest.Start(t, config), caddytest.Start(t, config)
	spent := leaseOf(t, n, "a")
	showsLease(t, n)
	n.Ratelimit(t, "policies").Want(t, 0, "up to 1 s")
	n.Ratelimit(t, "explain", "--url", n.URL, "-H", "X-Tenant: a").Want(t, 0, "tenant: while the key is busy a node decides by units that it has leased, for up to 1 s")
	if n.Metric(t, `decisions_total{decision="allowed",policy="tenant",source="lease"}`) < 1 {
		t.Error("no decision by a lease was counted")
	}

	// A reload gives back what was leased. Until then the other node counts it as used.
	n.Reload(t, strings.Replace(config, "lease\n", "lease 500ms\n", 1))
	other.WaitForRefund(t, "tenant", "a", 100_000-spent)
	if n.Metric(t, `leased_units_total{outcome="returned",policy="tenant"}`) < 1 {
		t.Error("no returned unit was counted")
	}

	// A reset forgets what is used, and what is leased of it on this node.
	leaseOfMore := n.Get(t, "/", "X-Tenant: a")
	caddytest.CheckQuota(t, leaseOfMore, 100_000, 100_000-spent-1)
	n.Ratelimit(t, "reset", "--policy", "tenant", "--key", "a").Want(t, 0, "")
	if state := stateOf(t, n, "tenant", "a"); state["leased"] != nil || state["remaining"] != 100_000.0 {
		t.Errorf("state after a reset: %v", state)
	}

	spent = leaseOf(t, n, "a")

	// A changed override ends the leases of its key, and applies to the next request.
	if a := n.Ask(t, http.MethodPost, "override", `{"policy":"tenant","key":"a","block":true}`); a.Status != 200 {
		t.Fatal(a)
	}
	if a := n.Get(t, "/", "X-Tenant: a"); a.Status != http.StatusTooManyRequests {
		t.Errorf("a blocked tenant: %v", a)
	}
	if state := stateOf(t, n, "tenant", "a"); state["leased"] != nil {
		t.Errorf("state of a blocked key: %v", state)
	}
	if a := n.Ask(t, http.MethodPost, "override", `{"policy":"tenant","key":"a","remove":true}`); a.Status != 200 {
		t.Fatal(a) // nothing remains of a blocked key, once the other node knows of the block
	}
	other.WaitForRefund(t, "tenant", "a", 100_000-spent)
}
