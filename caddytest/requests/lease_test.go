package requests

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// leasingSite leases units of tenants.
const leasingSite = `redis_ratelimit {header.X-Tenant} 100000 400d { name tenant; algorithm fixed_window; lease }
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
	stop := n.Meanwhile(t, "/", func(a caddytest.Response) bool { return a.Status == http.StatusOK }, "X-Tenant: b")
	defer stop()
	assert.WaitFor(t, "the state has a lease", func() error {
		leased := caddytest.State[struct {
			Leased struct {
				Units int64
				Lasts float64
			}
		}](t, n, "tenant", "b").Leased
		if leased.Units < 1 || leased.Lasts <= 0 || leased.Lasts > 1 {
			return fmt.Errorf("state of a leased key: %+v", leased)
		}
		return nil
	})
	assert.Retry(t, "the command shows a lease", func() (again bool, seen any) {
		ending := n.Ratelimit(t, "state", "--policy", "tenant", "--key", "b")
		return ending.Code != 0 || !strings.Contains(ending.Stdout, "by this node, for"), ending
	})
}

// TestLease has a node decide requests of a busy tenant by itself, with the same quota in every header, and
// shows what it holds.
func TestLease(t *testing.T) {
	t.Parallel()
	config := caddytest.Config(caddytest.SharedRedis(t), leasingSite)
	n, other := caddytest.Start(t, config), caddytest.Start(t, config)
	spent := leaseOf(t, n, "a")
	showsLease(t, n)
	n.Ratelimit(t, "policies").Want(t, 0, "up to 1 s")
	n.Ratelimit(t, "explain", "--url", n.URL, "-H", "X-Tenant: a").Want(t, 0, "tenant: while the key is busy a node decides by units that it has leased, for up to 1 s")
	assert.ErrorIf(t, n.Metric(t, `decisions_total{decision="allowed",policy="tenant",source="lease"}`) < 1, "no decision by a lease was counted")

	// A reload gives back what was leased. Until then the other node counts it as used.
	n.Reload(t, strings.Replace(config, "lease\n", "lease 500ms\n", 1))
	other.WaitForRefund(t, "tenant", "a", 100_000-spent)
	assert.ErrorIf(t, n.Metric(t, `leased_units_total{outcome="returned",policy="tenant"}`) < 1, "no returned unit was counted")

	// A reset forgets what is used, and what is leased of it on this node.
	caddytest.CheckQuota(t, n.Get(t, "/", "X-Tenant: a"), 100_000, 100_000-spent-1)
	n.Ratelimit(t, "reset", "--policy", "tenant", "--key", "a").Want(t, 0, "")
	state := stateOf(t, n, "tenant", "a")
	assert.ErrorIf(t, state["leased"] != nil || state["remaining"] != 100_000.0, "state after a reset: %v", state)

	spent = leaseOf(t, n, "a")

	// A changed override ends the leases of its key, and applies to the next request.
	n.Override(t, 200, `{"policy":"tenant","key":"a","block":true}`)
	n.Get(t, "/", "X-Tenant: a").Want(t, http.StatusTooManyRequests, caddytest.Any)
	assert.Equal(t, stateOf(t, n, "tenant", "a")["leased"], nil, "the lease of a blocked key")
	n.Override(t, 200, `{"policy":"tenant","key":"a","remove":true}`) // nothing remains of a blocked key, once the other node knows of the block
	other.WaitForRefund(t, "tenant", "a", 100_000-spent)
}

// Each policy of optionsSite has room for 1,000 requests of 20 units each. Near the limit up to a hundredth may
// be missing, as units are on their way back.
const (
	optionsRoom    = 1000
	optionsMissing = optionsRoom / 100
)

// optionsSite leases beside other options. /kept leaves a quarter of its quota to /rest.
var optionsSite = func() (site string) {
	for _, directive := range []struct{ path, name, option string }{
		{"tried", "tried", "dry_run"},
		{"rolled", "rolled", "enforce 50%"},
		{"kept", "shared", "reserve 25%"},
		{"rest", "shared", ""},
	} {
		site += fmt.Sprintf("\tredis_ratelimit /%s {\n\t\tname %s\n\t\tkey {query.k}\n\t\tlimit %d\n\t\twindow 400d\n\t\talgorithm fixed_window\n\t\tweight 20\n\t\tlease\n\t\t%s\n\t}\n",
			directive.path, directive.name, 20*optionsRoom, directive.option)
	}
	return site + caddytest.ShowDecision
}()

// flood sends a number of requests and returns how many were admitted. None is denied before and admitted after.
func flood(t *testing.T, n *caddytest.Node, path string, requests int) (admitted int) {
	t.Helper()
	for range requests {
		switch a := n.Get(t, path); a.Status {
		case http.StatusOK:
			admitted++
		case http.StatusTooManyRequests:
		default:
			t.Fatalf("%s: got %v", path, a)
		}
	}
	return admitted
}

// checkRoom expects as many as a policy has room for, or a few less.
func checkRoom(t *testing.T, what string, got int) {
	t.Helper()
	assert.ErrorIf(t, got > optionsRoom || got < optionsRoom-optionsMissing, "%s: %d, want %d to %d", what, got, optionsRoom-optionsMissing, optionsRoom)
}

// TestLease_options has a node lease units of policies that deny no client, or not all, or leave units to others.
// Each counts as it would without leases.
func TestLease_options(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config(caddytest.SharedRedis(t), optionsSite))
	const more = optionsRoom + 100

	// A dry run admits all, and counts those that would be denied.
	got := flood(t, n, "/tried?k=a", more)
	assert.ErrorIf(t, got != more, "a dry run admitted %d of %d", got, more)
	checkRoom(t, "a dry run would admit", decisions(t, n, "tried", "dry_run_allowed"))
	checkRoom(t, "a dry run would deny", more-decisions(t, n, "tried", "dry_run_denied"))

	// A policy that limits half of the keys admits all of a key that it does not limit.
	limited, free := rolledKeys(t, n)
	checkRoom(t, "a limited key was admitted", 1+flood(t, n, "/rolled?k="+limited, more))
	got = flood(t, n, "/rolled?k="+free, more)
	assert.ErrorIf(t, got != more, "a key that is not limited was admitted %d of %d times", got, more)

	// Less important requests are denied when a quarter is left, also where the others leased it, or earlier by
	// what is held for the others, some hundred requests. The others get the rest.
	admitted := 0
	for flood(t, n, "/kept?k=a", 1) == 1 {
		admitted += 1 + flood(t, n, "/rest?k=a", 1)
	}
	assert.ErrorIf(t, admitted > optionsRoom*3/4 || admitted < optionsRoom/2, "less important requests were denied after %d", admitted)
	checkRoom(t, "all requests", admitted+flood(t, n, "/rest?k=a", optionsRoom/2))

	for _, policy := range []string{"tried", "rolled", "shared"} {
		got := decisionsBy(t, n, "lease", policy, "allowed") + decisionsBy(t, n, "lease", policy, "dry_run_allowed")
		assert.ErrorIf(t, got < optionsRoom/4, "%s: %d requests were decided by leases; the test shows nothing", policy, got)
	}
}

// rolledKeys returns a key that the policy limits and one that it does not, whose quota no header shows. Each
// has sent a request.
func rolledKeys(t *testing.T, n *caddytest.Node) (limited, free string) {
	t.Helper()
	for i := range 100 {
		key := fmt.Sprint("key", i)
		if shown := n.Get(t, "/rolled?k="+key).Header.Get("X-Ratelimit-Limit"); shown != "" && limited == "" {
			limited = key
		} else if shown == "" && free == "" {
			free = key
		}
		if limited != "" && free != "" {
			return limited, free
		}
	}
	t.Fatal("all of a hundred keys are limited, or none")
	return "", ""
}

// decisions returns how many requests of a policy had a decision, whatever decided.
func decisions(t *testing.T, n *caddytest.Node, policy, decision string) (total int) {
	t.Helper()
	for _, source := range []string{"redis", "lease", "deny_cache"} {
		total += decisionsBy(t, n, source, policy, decision)
	}
	return total
}

// decisionsBy returns how many requests of a policy had a decision by a source.
func decisionsBy(t *testing.T, n *caddytest.Node, source, policy, decision string) int {
	t.Helper()
	return int(n.Metric(t, fmt.Sprintf("decisions_total{decision=%q,policy=%q,source=%q}", decision, policy, source)))
}
