package requests

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
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
		n.WantTimes(t, 5, "/401?k=guesser", http.StatusUnauthorized, caddytest.Any)
		n.Get(t, "/200?k=guesser").Want(t, http.StatusTooManyRequests, caddytest.Any, "X-Ratelimit-Remaining: 0", "Retry-After: *") // even the right password refused
		n.CheckMetric(t, `bans_total{policy="login"}`, 1)
		assert.Retry(t, "the second offense", func() (again bool, seen any) {
			n.Get(t, "/401?k=guesser")
			left := bannedFor(t, n, "login", "guesser")
			return left < 3000, fmt.Sprintf("banned for %v s", left)
		})
		n.CheckMetric(t, `bans_total{policy="login"}`, 2)
		n.Ratelimit(t, "reset", "--policy", "login", "--key", "guesser").Want(t, 0, "1 quota reset")
		n.Get(t, "/200?k=guesser").Want(t, http.StatusOK, caddytest.Any)
	})
}

// TestBan_failing has a backend that breaks off: such requests count. Those that reach no backend do not.
func TestBan_failing(t *testing.T) {
	backends := "handle /broken {\nreverse_proxy " + newModel(t).addr + "\n}\n" +
		"handle /down {\nreverse_proxy " + redistest.FreeAddr(t) + "\n}"
	n := caddytest.InProcess(t, strings.NewReplacer("respond /401 401", backends, "ban 1s 1h", "ban 1h").Replace(passwordSite))
	n.WantTimes(t, 7, "/down?k=user", http.StatusBadGateway, caddytest.Any)
	n.Get(t, "/200?k=user").Want(t, http.StatusOK, caddytest.Any, "X-Ratelimit-Remaining: 5")
	n.GetTimes(t, 6, "/broken?break=before&k=breaker")
	assert.ErrorIf(t, bannedFor(t, n, "login", "breaker") == 0, "a client that breaks what is behind the limit is not banned")
}

// banSite bans for an hour who is denied three times.
const banSite = "redis_ratelimit {\nname api\nkey {query.k}\nlimit 2\nwindow 24h\nban 1h after 3\n}\n" + caddytest.ShowDecision

// TestBan_twoNodes bans a client on one node. The other refuses it too, and the node that saw it goes on
// without Redis. Operators see it and lift it.
func TestBan_twoNodes(t *testing.T) {
	one, server := caddytest.OnRedis(t, "timeout 10s", banSite)
	two := caddytest.Start(t, caddytest.Config(caddytest.RedisAt(server.Addr, "timeout 10s"), banSite))
	one.GetTimes(t, 5, "/?k=bad")
	for range 2 {
		one.GetUntil(t, "/?k=bad", "denied deny_cache").Want(t, http.StatusTooManyRequests, "denied deny_cache", "X-Ratelimit-Remaining: 0")
	}
	two.Get(t, "/?k=bad").Want(t, http.StatusTooManyRequests, "denied redis", "X-Ratelimit-Remaining: 0")
	two.GetUntil(t, "/?k=bad", "denied deny_cache").Want(t, http.StatusTooManyRequests, "denied deny_cache", "X-Ratelimit-Remaining: 0")
	one.Get(t, "/?k=good").Want(t, http.StatusOK, caddytest.Any)
	one.Ratelimit(t, "top").Want(t, 0, "BANNED FOR", "bad")
	two.Ratelimit(t, "bans").Want(t, 0, "OFFENSES", "api", "bad")
	two.Ratelimit(t, "bans", "--policy", "nope").Want(t, 2)
	one.Ratelimit(t, "policies").Want(t, 0, "after 3")
	one.Ratelimit(t, "state", "--policy", "api", "--key", "bad").Want(t, 0, "banned", "offenses=1", ":b1d")
	assert.Equal(t, one.Explain(t, "/?k=bad", "").Decision, "denied", "the explained decision")
	one.Ratelimit(t, "explain", "--url", one.URL+"/?k=bad").Want(t, 4, "srv0: denied", "banned")
	two.Ratelimit(t, "reset", "--policy", "api", "--key", "bad").Want(t, 0, "1 quota reset")
	two.Ratelimit(t, "bans").Want(t, 0, "no client is banned")
	one.Await(t, "/?k=bad", http.StatusOK, caddytest.Any)
	two.GetTimes(t, 5, "/?k=bad")
	assert.ErrorIf(t, !one.Get(t, "/?k=bad").DeniedByRedis(), "the client is not denied again")
	server.Kill()
	for _, n := range []*caddytest.Node{one, two} {
		assert.WaitFor(t, "the node decides by itself", func() error {
			if a := n.Get(t, "/?k=bad"); a.Status != http.StatusTooManyRequests {
				t.Errorf("without Redis: %v", a)
			} else if a.Body != "denied fallback" {
				return fmt.Errorf("got %v", a)
			}
			return nil
		})
		left := bannedFor(t, n, "api", "bad")
		assert.ErrorIf(t, left < 3000, "without Redis the client is banned for %v s", left)
		n.Ratelimit(t, "bans").Want(t, 3)
	}
}

// TestBan_burst sends a burst to two nodes: it is one offense.
func TestBan_burst(t *testing.T) {
	t.Parallel()
	option := caddytest.SharedRedis(t)
	config := caddytest.Quietly(caddytest.Config(option, strings.Replace(banSite, "ban 1h after 3", "ban 1h 24h", 1)))
	nodes := []*caddytest.Node{caddytest.Start(t, config), caddytest.Start(t, config)}
	var group sync.WaitGroup
	for _, n := range nodes {
		group.Go(func() { n.Crowd(t, 100, "/?k=burst") })
	}
	group.Wait()
	left := bannedFor(t, nodes[0], "api", "burst")
	assert.ErrorIf(t, left < 3000 || left > 3600, "banned for %v s, want the first duration", left)
	const series = `bans_total{policy="api"}`
	assert.Retry(t, "one ban", func() (again bool, seen any) {
		got := nodes[0].Metric(t, series) + nodes[1].Metric(t, series)
		return got != 1, fmt.Sprintf("%v bans", got)
	})
}

// TestBan_dryRun tries a ban: it is shown and refuses no request, and an enforced handler keeps it.
func TestBan_dryRun(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		policy := "policy api {\nkey {query.k}\nlimit 2\nwindow 24h\nban 1h after 2\n"
		n := caddytest.Start(t, caddytest.Config(option, "redis_ratelimit /enforced {\n"+policy+"}\n}\nredis_ratelimit /try {\n"+policy+"dry_run\n}\n}"+showDryRun))
		// Bans are counted from 0. Otherwise a rate would not show the first one.
		n.Send(t, http.MethodGet, n.Admin+"/metrics", "").Want(t, 0, `*bans_total{policy="api"} 0*`)
		for _, want := range []string{"", "", "api", "api:banned", "api:banned"} {
			n.Get(t, "/try?k=x").Want(t, http.StatusOK, "ok allowed "+want)
		}
		n.Get(t, "/enforced?k=x").Want(t, http.StatusTooManyRequests, caddytest.Any)
		n.CheckMetric(t, `bans_total{policy="api"}`, 1)
	})
}

// reasons ends a site: every answer has the reason in a header, and the decision as its body.
const reasons = `
	header >X-Reason "<{http.redis_ratelimit.reason}>"
	respond "{http.redis_ratelimit.decision}"
	handle_errors { header X-Reason "<{http.redis_ratelimit.reason}>"; respond "{http.redis_ratelimit.decision}" }`

// expect sends a request and checks its status and reason.
func expect(t *testing.T, n *caddytest.Node, method, path string, status int, reason string) caddytest.Response {
	t.Helper()
	a := n.Send(t, method, n.URL+path, "")
	got := a.Header.Get("X-Reason")
	assert.ErrorIf(t, a.Status != status || got != "<"+reason+">", "%s %s: got %v, want %d by %q", method, path, a, status, reason)
	return a
}

// TestBan_overridden changes what applies to a client that is banned, in the order of the documentation: a
// block, an exemption, the client's own limit, that of all.
func TestBan_overridden(t *testing.T) {
	caddytest.OnEachStore(t, "redis_ratelimit {\nname api\nkey {query.k}\nlimit 2\nwindow 24h\nban 1h after 2\n}\nlog"+reasons, func(t *testing.T, n *caddytest.Node, _ string) {
		for _, reason := range []string{"", "", "limit", "ban", "ban"} {
			status := map[bool]int{true: http.StatusOK, false: http.StatusTooManyRequests}[reason == ""]
			expect(t, n, http.MethodGet, "/?k=bad", status, reason)
		}
		n.Override(t, 200, `{"policy":"api","all":true,"limit":1000}`)
		expect(t, n, http.MethodGet, "/?k=bad", 429, "ban")
		n.Override(t, 200, `{"policy":"api","key":"bad","limit":500}`)
		expect(t, n, http.MethodHead, "/?k=bad", 429, "ban").Want(t, 0, caddytest.Any, "X-RateLimit-Limit: 500", "X-RateLimit-Remaining: 0", "Retry-After: *")
		left := bannedFor(t, n, "api", "bad")
		assert.ErrorIf(t, left < 3000, "the state shows a ban of %v s", left)
		n.Override(t, 200, `{"policy":"api","key":"bad","exempt":true}`)
		for range 3 {
			expect(t, n, http.MethodGet, "/?k=bad", 200, "").Want(t, 0, "exempt")
		}
		n.Override(t, 200, `{"policy":"api","key":"bad","block":true,"for":"2h"}`)
		expect(t, n, http.MethodGet, "/?k=bad", 429, "block")
		n.Override(t, 200, `{"policy":"api","key":"bad","remove":true}`)
		expect(t, n, http.MethodGet, "/?k=bad", 429, "ban")
		n.Override(t, 200, `{"policy":"api","key":"bad","unban":true}`)
		expect(t, n, http.MethodGet, "/?k=bad", 200, "").Want(t, 0, caddytest.Any, "X-RateLimit-Remaining: 997") // two units used before, and none while exempt or blocked
		n.Override(t, 200, `{"policy":"api","all":true,"remove":true}`)
		expect(t, n, http.MethodGet, "/?k=bad", 429, "limit") // the first of two: offenses are forgotten

		n.Override(t, 200, `{"policy":"api","key":"low","limit":1}`)
		expect(t, n, http.MethodGet, "/?k=low", 200, "")
		expect(t, n, http.MethodGet, "/?k=low", 429, "limit")
		expect(t, n, http.MethodGet, "/?k=low", 429, "ban")
		n.CheckMetric(t, `bans_total{policy="api"}`, 2)
		n.Override(t, 200, `{"policy":"api","key":"calm","block":true}`)
		for range 5 { // a block is no offense
			expect(t, n, http.MethodGet, "/?k=calm", 429, "block")
		}
		n.Override(t, 200, `{"policy":"api","key":"calm","remove":true}`)
		expect(t, n, http.MethodGet, "/?k=calm", 200, "")
		for _, reason := range []string{"limit", "ban", "block"} {
			assert.ErrorIf(t, !strings.Contains(n.Log.String(), `"ratelimit_reason":"`+reason+`"`), "the access log has no denial by %s", reason)
		}
	})
}

// TestReason_several has requests that meet several policies and handlers.
func TestReason_several(t *testing.T) {
	policies := `redis_ratelimit %PATH% {
		policy %NAME%bans { key {query.k}; limit 1; window 1h; ban 2h 20h }
		policy %NAME%long {
			key {query.long}
			match { query long=* }
			limit 1
			window 365d
		}
		%MORE%
	}
	`
	site := func(path, name, more string) string {
		return strings.NewReplacer("%PATH%", path, "%NAME%", name, "%MORE%", more).Replace(policies)
	}
	dry := strings.ReplaceAll(site("/dry", "dry", ""), "limit 1", "limit 1\ndry_run")
	caddytest.OnEachStore(t, site("/several", "a", "")+site("/problem", "b", "answer problem")+dry+site("/two/*", "c", "")+site("/two/inner*", "d", "")+reasons, func(t *testing.T, n *caddytest.Node, _ string) {
		expect(t, n, http.MethodGet, "/several?k=x&long=1", 200, "")
		expect(t, n, http.MethodGet, "/several?k=x", 429, "ban").Want(t, 0, caddytest.Any, "X-RateLimit-Reset: *")
		expect(t, n, http.MethodGet, "/several?k=y&long=1", 429, "limit")
		if a := expect(t, n, http.MethodGet, "/several?k=x&long=1", 429, "limit"); len(a.Header.Get("Retry-After")) < 6 {
			t.Errorf("got %v; want the policy that waits longest", a)
		}
		assert.Equal(t, bannedFor(t, n, "abans", "y"), 0, "the ban after a denial by another policy")
		for _, block := range []string{"x", "z"} { // of a banned client, and of one that is not
			n.Override(t, 200, `{"policy":"abans","key":"`+block+`","block":true}`)
			expect(t, n, http.MethodGet, "/several?k="+block+"&long=1", 429, "block")
		}

		const prefix = `"type":"https://iana.org/assignments/http-problem-types#`
		n.Get(t, "/problem?k=x")
		for body, text := range map[string]string{"/problem?k=x": prefix + "abnormal-usage-detected", "/problem?k=blocked": prefix + "quota-exceeded"} {
			n.Override(t, 200, `{"policy":"bbans","key":"blocked","block":true}`)
			a := n.Get(t, body)
			assert.ErrorIf(t, !strings.Contains(a.Body, text) || strings.Count(a.Body, "bbans") != 1, "%s: got %v, want %s", body, a, text)
			n.Send(t, http.MethodHead, n.URL+body, "").Want(t, 429, "", "Content-Type: application/problem+json")
		}

		n.Override(t, 200, `{"policy":"drybans","key":"blocked","block":true}`)
		for _, query := range []string{"k=x", "k=x", "k=x", "k=blocked"} {
			expect(t, n, http.MethodGet, "/dry?"+query, 200, "")
		}

		expect(t, n, http.MethodGet, "/two/inner?k=x&long=1", 200, "")
		expect(t, n, http.MethodGet, "/two/other?k=x", 429, "ban")          // by the outer one
		expect(t, n, http.MethodGet, "/two/inner?k=y&long=1", 429, "limit") // by either
	})
}
