package admin

import (
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestPolicies_inForce shows policies with all that is set, and what each has met, in 80 columns.
func TestPolicies_inForce(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		n := caddytest.Start(t, caddytest.Config(option, `redis_ratelimit /login {
		policy login { key all; limit 3; window 15m; count_if status 401; match method POST }
		policy wrong { limit 500; window 15m; count_if status 418 }
		policy site { limit 1000; window month Europe/Berlin; dry_run }
	}
	redis_ratelimit /unused {http.request.header.X-Api-Key-With-A-Name-Of-Many-Characters}-{client_ip} 5 1s {
		name never
		algorithm gcra
		burst 9
		weight 2
		ipv4_prefix 24
		on_empty_key reject
		notify 80%
	}
	respond /login "wrong" 401`))
		for range 5 {
			n.Send(t, http.MethodPost, n.URL+"/login", "")
		}
		for range 120 {
			n.Get(t, "/login")
		}
		e := n.Ratelimit(t, "policies")
		e.Want(t, 0, `
login: 3 requests per 15 minutes for all clients together
  key          all
  count_if     status 401
  handlers     `, `path /login, match method POST
  since start  5 requests met, 2 denied, 0 would be denied, 3 counted
               count_if matched 3 of 3 responses
`, `
wrong: 500 requests per 15 minutes for each client address
  count_if      status 418
  looking here  0
`, `
  since start   125 requests met, 0 denied, 0 would be denied, 0 counted, 2
                denied by other policies
!               count_if matched 0 of 123 responses
`, `
site: 1,000 requests per calendar month (Europe/Berlin) for each client address
  dry_run
`, `
  since start  125 requests met, 0 denied, 0 would be denied, 125 counted
`, `
never: 5 units per second for each header
  X-Api-Key-With-A-Name-Of-Many-Characters and /24 (IPv6 /64)
  algorithm     gcra
  burst         9
  ipv4_prefix   24
  key           `, `
  on_empty_key  reject
  weight        2
  notify        80%
`, `
! since start   never met
`)
		for line := range strings.Lines(e.Stdout) {
			assert.ErrorIf(t, utf8.RuneCountInString(line) > 81, "%q is wider than 80 columns", line)
		}
		n.Ask(t, http.MethodGet, "policies", "").Want(t, http.StatusOK, `*"count_if":"status 401"*"since_start":{"since":"20*Z","met":5,"denied":2,"would_be_denied":0,"denied_by_other":0,"failed_open":0,"failed_closed":0,"counted":3,"count_if":{"responses":3,"matched":3}}*`)
		n.Ratelimit(t, "policies", "--fail").Want(t, 0, "never met")
	})
}

// TestPolicies_fail asks before and after Redis has ended: the exit code is 1, and both forms say since when.
func TestPolicies_fail(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := startLimited(t, server)
	n.Ratelimit(t, "policies", "--fail").Want(t, 0, "decides in")
	n.Ratelimit(t, "policies", "--fail", "--json").Want(t, 0, `"healthy":true`)
	server.Kill()
	assert.Retry(t, "the node notices by its polls, without a request", func() (again bool, seen any) {
		a := n.Ask(t, http.MethodGet, "policies", "")
		return !strings.Contains(a.Body, `"healthy":false`) || !strings.Contains(a.Body, `"failing_since":"20`), a
	})
	n.Ratelimit(t, "policies").Want(t, 0, " does not decide since 20", "  for ")
	e := n.Ratelimit(t, "policies", "--fail")
	e.Want(t, 1, "redis does not decide since 20")
	e = n.Ratelimit(t, "policies", "--fail", "--json")
	e.Want(t, 1, `"failing_since":"20`)
	e.ParseJSON(t)
}

// TestExplain_settings says for which client the answer is, and what the policies allow.
func TestExplain_settings(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", `redis_ratelimit {client_ip} 5 15m {
		name login
		count_if status 401
	}
	respond ok`))
	e := n.Ratelimit(t, "explain", "--url", n.URL)
	e.Want(t, 0, "for a client at 192.0.2.1, an example; name another with --client-ip\n",
		"\nlogin: 5 requests per 15 minutes for each client address; count_if status 401\n")
	e = n.Ratelimit(t, "explain", "--url", n.URL, "--client-ip", "203.0.113.7")
	e.Want(t, 0, "203.0.113.7")
	assert.ErrorIf(t, strings.Contains(e.Stdout, "an example"), "got %v", e)
	n.Ask(t, http.MethodPost, "explain", `{"url":"`+n.URL+`","client_ip":"203.0.113.7"}`).
		Want(t, http.StatusOK, `*"client_ip":"203.0.113.7"*"settings":{"name":"login","algorithm":"sliding_window_counter","limit":5,"window":900,*`)
}

// TestUnknownPolicy names those that are there.
func TestUnknownPolicy(t *testing.T) {
	t.Parallel()
	site := "respond ok\n"
	for _, name := range []string{"c", "a", "b", "d", "e", "f", "g", "h", "i", "j", "k", "l"} {
		site = "redis_ratelimit /" + name + " {client_ip} 5 15m {\nname " + name + "\n}\n" + site
	}
	n := caddytest.Start(t, caddytest.Config("", site))
	const want = `the running configuration has none of this name; there are: a, b, c, d, e, f, g, h, i, j and 2 more`
	for _, args := range [][]string{
		{"state", "--policy", "z", "--key", "k"}, {"reset", "--policy", "z", "--all"}, {"override", "--policy", "z", "--key", "k", "--block"},
		{"bans", "--policy", "z"}, {"top", "--policy", "z"},
	} {
		n.Ratelimit(t, args...).Want(t, 2, want)
	}
}
