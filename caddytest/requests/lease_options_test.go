package requests

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

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
	if got > optionsRoom || got < optionsRoom-optionsMissing {
		t.Errorf("%s: %d, want %d to %d", what, got, optionsRoom-optionsMissing, optionsRoom)
	}
}

// TestLease_options has a node lease units of policies that deny no client, or not all, or leave units to others.
// Each counts as it would without leases.
func TestLease_options(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config(caddytest.PatientRedis(redistest.Start(t)), optionsSite))
	const more = optionsRoom + 100

	// A dry run admits all, and counts those that would be denied.
	if got := flood(t, n, "/tried?k=a", more); got != more {
		t.Errorf("a dry run admitted %d of %d", got, more)
	}
	checkRoom(t, "a dry run would admit", decisions(t, n, "tried", "dry_run_allowed"))
	checkRoom(t, "a dry run would deny", more-decisions(t, n, "tried", "dry_run_denied"))

	// A policy that limits half of the keys admits all of a key that it does not limit.
	limited, free := rolledKeys(t, n)
	checkRoom(t, "a limited key was admitted", 1+flood(t, n, "/rolled?k="+limited, more))
	if got := flood(t, n, "/rolled?k="+free, more); got != more {
		t.Errorf("a key that is not limited was admitted %d of %d times", got, more)
	}

	// Less important requests are denied when a quarter is left, also where the others leased it, or earlier by
	// what is held for the others, some hundred requests. The others get the rest.
	admitted := 0
	for flood(t, n, "/kept?k=a", 1) == 1 {
		admitted += 1 + flood(t, n, "/rest?k=a", 1)
	}
	if admitted > optionsRoom*3/4 || admitted < optionsRoom/2 {
		t.Errorf("less important requests were denied after %d", admitted)
	}
	checkRoom(t, "all requests", admitted+flood(t, n, "/rest?k=a", optionsRoom/2))

	for _, policy := range []string{"tried", "rolled", "shared"} {
		if got := decisionsBy(t, n, "lease", policy, "allowed") + decisionsBy(t, n, "lease", policy, "dry_run_allowed"); got < optionsRoom/4 {
			t.Errorf("%s: %d requests were decided by leases; the test shows nothing", policy, got)
		}
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
