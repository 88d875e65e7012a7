package requests

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// rolloutSite limits a part of the keys to one request a day.
func rolloutSite(percent string) string {
	return "redis_ratelimit {\nname rollout\nkey {query.k}\nlimit 1\nwindow 24h\nenforce " + percent + "\n}" + showDryRun
}

// rolloutKeys are keys of clients.
func rolloutKeys() (keys []string) {
	for i := range 60 {
		keys = append(keys, fmt.Sprint("client", i))
	}
	return keys
}

// limitedKeys returns the keys that are denied, each of which has used up its quota. The others have no
// header and are named as a dry run.
func limitedKeys(t *testing.T, n *caddytest.Node) (limited []string) {
	t.Helper()
	for _, key := range rolloutKeys() {
		switch a := n.Get(t, "/?k="+key); {
		case a.Status == http.StatusTooManyRequests:
			limited = append(limited, key)
			caddytest.CheckQuota(t, a, 1, 0)
		case a.Status != http.StatusOK || a.Body != "ok allowed rollout" || caddytest.HasQuota(a):
			t.Errorf("%s: got %v; want a dry run", key, a)
		}
	}
	return limited
}

// TestEnforce_stores expects the same keys to be limited in a process, on a Redis, with hashed keys, on a
// Cluster and on a second node, and more of them with a larger percentage.
func TestEnforce_stores(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	shared := caddytest.PatientRedis(server)
	cluster := "redis_ratelimit {\nredis {\nmode cluster\naddress " + redistest.StartCluster(t)[0].Addr + "\n}\ntimeout 10s\n}"
	const few, many = 15, 45 // of 60 keys, roughly
	var first [2][]string
	for i, option := range []string{"", shared, shared, strings.Replace(shared, "timeout", "hash_keys secret\ntimeout", 1), cluster} {
		n := caddytest.Start(t, caddytest.Quietly(caddytest.Config(option, rolloutSite("25%"))))
		for _, key := range rolloutKeys() {
			n.Get(t, "/?k="+key)
		}
		var limited [2][]string
		limited[0] = limitedKeys(t, n)
		n.Reload(t, caddytest.WithPorts(n, caddytest.Quietly(caddytest.Config(option, rolloutSite("75%")))))
		limited[1] = limitedKeys(t, n)
		if i == 0 {
			first = limited
		}
		if !slices.Equal(limited[0], first[0]) || !slices.Equal(limited[1], first[1]) {
			t.Errorf("%s: limits %v, elsewhere %v", option, limited, first)
		}
		n.Stop(t)
	}
	for _, key := range first[0] {
		if !slices.Contains(first[1], key) {
			t.Errorf("%s is limited at 25%% and not at 75%%", key)
		}
	}
	if len(first[0]) < few-10 || len(first[0]) > few+10 || len(first[1]) < many-10 || len(first[1]) > many+10 {
		t.Errorf("limits %d and %d of 60 keys, want about %d and %d", len(first[0]), len(first[1]), few, many)
	}
}

// TestEnforce_operators asks the admin API about a key that is limited and one that is not.
func TestEnforce_operators(t *testing.T) {
	t.Parallel()
	caddytest.OnBothStores(t, func(t *testing.T, option, source string) {
		n := caddytest.Start(t, caddytest.Config(option, rolloutSite("50%")))
		var limited, pretended string
		for _, key := range rolloutKeys() {
			n.Get(t, "/?k="+key)
			if a := n.Get(t, "/?k="+key); a.Status == http.StatusOK {
				pretended = key
			} else {
				limited = key
			}
		}
		for key, dry := range map[string]bool{limited: false, pretended: true} {
			e := n.Explain(t, "/?k="+key, "")
			want := map[bool]string{false: "denied", true: "allowed"}[dry]
			if len(e.Policies) != 1 || e.Policies[0].DryRun != dry || e.Policies[0].Decision != "denied" || e.Decision != want {
				t.Errorf("%s: explained as %+v", key, e)
			}
			if got, _ := stateOf(t, n, "rollout", key)["dry_run"].(bool); got != dry {
				t.Errorf("%s: the state says dry_run %v", key, got)
			}
			n.Ask(t, http.MethodPost, "override", `{"policy":"rollout","key":"`+key+`","block":true}`)
		}
		n.Ratelimit(t, "state", "--policy", "rollout", "--key", pretended).Want(t, 0, "no handler limits this key")
		n.Ratelimit(t, "policies").Want(t, 0, "enforce 50%")
		if a := n.Get(t, "/?k="+limited); a.Status != http.StatusTooManyRequests {
			t.Errorf("a blocked key: got %v", a)
		}
		if a := n.Get(t, "/?k="+pretended); a.Status != http.StatusOK || a.Body != "ok allowed rollout" {
			t.Errorf("a block of a key that is not limited: got %v", a)
		}
		if got := n.Metric(t, `decisions_total{decision="dry_run_denied",policy="rollout",source="`+source+`"}`); got < 15 || got > 45 {
			t.Errorf("%v requests would have been denied, want about 30", got)
		}
	})
}

// TestEnforce_keyless refuses requests without a key only when all keys are limited.
func TestEnforce_keyless(t *testing.T) {
	t.Parallel()
	site := func(option string) string {
		return "redis_ratelimit {\nname keyless\nkey {query.k}\nlimit 1\nwindow 24h\non_empty_key reject\n" + option + "\n}" + showDryRun
	}
	n := caddytest.Start(t, caddytest.Config("", site("enforce 99%")))
	if a := n.Get(t, "/"); a.Status != http.StatusOK || a.Body != "ok allowed keyless" {
		t.Errorf("got %v; want a dry run", a)
	}
	n.Reload(t, caddytest.WithPorts(n, caddytest.Config("", site("enforce 100%"))))
	if a := n.Get(t, "/"); a.Status != http.StatusBadRequest {
		t.Errorf("got %v; want the request refused", a)
	}
}

// TestEnforce_countIf refunds units of keys that are limited and of those that are not.
func TestEnforce_countIf(t *testing.T) {
	t.Parallel()
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		n := caddytest.Start(t, caddytest.Config(option, "redis_ratelimit {\nname rollout\nkey {query.k}\nlimit 2\nwindow 24h\nenforce 50%\ncount_if status 401\n}"+showDryRun))
		for _, key := range rolloutKeys()[:10] {
			for range 3 {
				if a := n.Get(t, "/?k="+key); a.Status != http.StatusOK || a.Body != "ok allowed " {
					t.Errorf("%s: got %v", key, a)
				}
				n.WaitForRefund(t, "rollout", key, 2)
			}
		}
	})
}
