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

// stateOf returns what the admin API reports of a key.
func stateOf(t *testing.T, n *caddytest.Node, policy, key string) map[string]any {
	t.Helper()
	return caddytest.ParseJSON[map[string]any](t, n.Ask(t, http.MethodPost, "state", `{"policy":"`+policy+`","key":"`+key+`"}`))
}

// bannedFor returns for how many seconds more a key is banned.
func bannedFor(t *testing.T, n *caddytest.Node, policy, key string) float64 {
	t.Helper()
	seconds, _ := stateOf(t, n, policy, key)["banned"].(float64)
	return seconds
}

// passwordSite bans who guesses passwords.
const passwordSite = `redis_ratelimit { name login; key {query.k}; limit 5; window 24h; count_if status 401; ban 1s 1h }
	respond /401 401
	respond "welcome"`

// TestBan_passwordGuesser bans a guesser, and again for longer once the first ban has ended. Log-ins that
// go well ban no client, however many come at once.
func TestBan_passwordGuesser(t *testing.T) {
	caddytest.OnEachStore(t, passwordSite, func(t *testing.T, n *caddytest.Node, _ string) {
		n.Crowd(t, 40, "/200?k=user")
		n.WaitForRefund(t, "login", "user", 5)
		if n.Get(t, "/401?k=user"); n.Metric(t, `bans_total{policy="login"}`) != 0 || bannedFor(t, n, "login", "user") != 0 {
			t.Errorf("parallel log-ins that went well banned the user")
		}
		for range 5 {
			n.Get(t, "/401?k=guesser").Want(t, http.StatusUnauthorized, caddytest.Any)
		}
		n.Get(t, "/200?k=guesser").Want(t, http.StatusTooManyRequests, caddytest.Any, "X-Ratelimit-Remaining: 0", "Retry-After: *") // even the right password refused
		n.CheckMetric(t, `bans_total{policy="login"}`, 1)
		redistest.Retry(t, "the second offense", func() (again bool, seen any) {
			n.Get(t, "/401?k=guesser")
			left := bannedFor(t, n, "login", "guesser")
			return left < 3000, fmt.Sprintf("banned for %v s", left)
		})
		n.CheckMetric(t, `bans_total{policy="login"}`, 2)
		n.Ratelimit(t, "reset", "--policy", "login", "--key", "guesser").Want(t, 0, "1 quota reset")
		n.Get(t, "/200?k=guesser").Want(t, http.StatusOK, caddytest.Any)
	})
}

// TestBan_failing has handlers that fail: such requests count.
func TestBan_failing(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", strings.Replace(passwordSite, "respond /401 401", "error /broken 500", 1)))
	for range 6 {
		n.Get(t, "/broken?k=breaker")
	}
	if left := bannedFor(t, n, "login", "breaker"); left == 0 {
		t.Error("a client that breaks what is behind the limit is not banned")
	}
}

// banSite bans for an hour who is denied three times.
const banSite = "redis_ratelimit {\nname api\nkey {query.k}\nlimit 2\nwindow 24h\nban 1h after 3\n}\n" + caddytest.ShowDecision

// TestBan_twoNodes bans a client on one node. The other refuses it too, and the node that saw it goes on
// without Redis. Operators see it and lift it.
func TestBan_twoNodes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	config := caddytest.Config("redis_ratelimit {\nredis redis://"+server.Addr+"\ntimeout 2s\n}", banSite)
	one, two := caddytest.Start(t, config), caddytest.Start(t, config)
	for range 5 {
		one.Get(t, "/?k=bad")
	}
	for i, n := range []*caddytest.Node{one, one, two, two} {
		a := n.Get(t, "/?k=bad")
		want := "denied deny_cache"
		if i == 2 {
			want = "denied redis"
		}
		redistest.ErrorIf(t, a.Status != http.StatusTooManyRequests || a.Body != want || a.Header.Get("X-Ratelimit-Remaining") != "0", "request %d: %v, want %s", i, a, want)
	}
	one.Get(t, "/?k=good").Want(t, http.StatusOK, caddytest.Any)
	one.Ratelimit(t, "top").Want(t, 0, "BANNED FOR", "bad")
	two.Ratelimit(t, "bans").Want(t, 0, "OFFENSES", "api", "bad")
	two.Ratelimit(t, "bans", "--policy", "nope").Want(t, 2)
	one.Ratelimit(t, "policies").Want(t, 0, "after 3")
	one.Ratelimit(t, "state", "--policy", "api", "--key", "bad").Want(t, 0, "banned", "offenses=1", ":b1d")
	if e := one.Explain(t, "/?k=bad", ""); e.Decision != "denied" {
		t.Errorf("explained as %+v", e)
	}
	one.Ratelimit(t, "explain", "--url", one.URL+"/?k=bad").Want(t, 4, "srv0: denied", "banned")
	two.Ratelimit(t, "reset", "--policy", "api", "--key", "bad").Want(t, 0, "1 quota reset")
	two.Ratelimit(t, "bans").Want(t, 0, "no client is banned")
	redistest.Retry(t, "the other node lets the client in", func() (again bool, seen any) {
		a := one.Get(t, "/?k=bad")
		return a.Status != http.StatusOK, a
	})
	for range 5 {
		two.Get(t, "/?k=bad")
	}
	if a := one.Get(t, "/?k=bad"); !a.DeniedByRedis() {
		t.Errorf("got %v", a)
	}
	server.Kill()
	for _, n := range []*caddytest.Node{one, two} {
		redistest.WaitFor(t, "the node decides by itself", func() error {
			if a := n.Get(t, "/?k=bad"); a.Status != http.StatusTooManyRequests {
				t.Errorf("without Redis: %v", a)
			} else if a.Body != "denied fallback" {
				return fmt.Errorf("got %v", a)
			}
			return nil
		})
		if left := bannedFor(t, n, "api", "bad"); left < 3000 {
			t.Errorf("without Redis the client is banned for %v s", left)
		}
		n.Ratelimit(t, "bans").Want(t, 3)
	}
}

// TestBan_burst sends a burst to two nodes: it is one offense.
func TestBan_burst(t *testing.T) {
	t.Parallel()
	option := caddytest.PatientRedis(redistest.Start(t))
	config := caddytest.Quietly(caddytest.Config(option, strings.Replace(banSite, "ban 1h after 3", "ban 1h 24h", 1)))
	nodes := []*caddytest.Node{caddytest.Start(t, config), caddytest.Start(t, config)}
	var group sync.WaitGroup
	for i := range 200 {
		group.Go(func() {
			if _, err := nodes[i%2].Try(http.MethodGet, nodes[i%2].URL+"/?k=burst", ""); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if left := bannedFor(t, nodes[0], "api", "burst"); left < 3000 || left > 3600 {
		t.Errorf("banned for %v s, want the first duration", left)
	}
	const series = `bans_total{policy="api"}`
	redistest.Retry(t, "one ban", func() (again bool, seen any) {
		got := nodes[0].Metric(t, series) + nodes[1].Metric(t, series)
		return got != 1, fmt.Sprintf("%v bans", got)
	})
}

// TestBan_dryRun tries a ban: it is shown and refuses no request, and an enforced handler keeps it.
func TestBan_dryRun(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		policy := "policy api {\nkey {query.k}\nlimit 2\nwindow 24h\nban 1h after 2\n"
		n := caddytest.Start(t, caddytest.Config(option, "redis_ratelimit /enforced {\n"+policy+"}\n}\nredis_ratelimit /try {\n"+policy+"dry_run\n}\n}"+showDryRun))
		if text := n.Send(t, http.MethodGet, n.Admin+"/metrics", "").Body; !strings.Contains(text, `bans_total{policy="api"} 0`) {
			t.Error("the bans are not counted from 0: a rate would not show the first one")
		}
		for _, want := range []string{"", "", "api", "api:banned", "api:banned"} {
			n.Get(t, "/try?k=x").Want(t, http.StatusOK, "ok allowed "+want)
		}
		n.Get(t, "/enforced?k=x").Want(t, http.StatusTooManyRequests, caddytest.Any)
		n.CheckMetric(t, `bans_total{policy="api"}`, 1)
	})
}
