package plugins

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// TestCache_inFront has a cache where its plugin puts it: hits are not counted, and clients share answers and denials.
func TestCache_inFront(t *testing.T) {
	t.Parallel()
	backend := caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/shared" {
			w.Header().Set("Cache-Control", "no-store")
		}
	})
	n := start(t, "", "cache\nredis_ratelimit {header.X-Client} 2 24h\nreverse_proxy "+backend)
	warned(t, n, "write order cache after redis_ratelimit")
	for range 5 {
		caddytest.CheckQuota(t, n.Get(t, "/", ofClient+"a").Want(t, http.StatusOK, ""), 2, 1)
	}
	caddytest.CheckQuota(t, n.Get(t, "/", ofClient+"b"), 2, 1) // of the other client
	n.Get(t, "/again", ofClient+"a")
	fresh := 0
	assert.WaitFor(t, "a denial of one client reaches a fresh one", func() error {
		var group sync.WaitGroup
		var shared atomic.Bool
		for range 8 {
			fresh++
			client := strconv.Itoa(fresh)
			group.Go(func() { _, _ = n.Try(http.MethodGet, n.URL+"/shared", "", ofClient+"a") })
			group.Go(func() {
				if answer, err := n.Try(http.MethodGet, n.URL+"/shared", "", ofClient+client); err == nil && answer.Status == http.StatusTooManyRequests {
					shared.Store(true)
				}
			})
		}
		if group.Wait(); shared.Load() {
			return nil
		}
		return errors.New("none did")
	})
}

// TestFirewall_inFront has a WAF as its README orders it: count_if sees nothing of what it refuses.
func TestFirewall_inFront(t *testing.T) {
	t.Parallel()
	const site = "coraza_waf\nredis_ratelimit {client_ip} 1 24h { name attacks; count_if status STATUS }\nrespond ok"
	n := start(t, "order coraza_waf first", strings.Replace(site, "STATUS", "403", 1))
	for range 4 {
		n.Get(t, "/?attack").Want(t, http.StatusForbidden, "", caddytest.NoQuota)
	}
	warned(t, n, `policy \"attacks\": what coraza_waf refuses with 403`)
	warned(t, start(t, "order coraza_waf first", strings.Replace(site, "STATUS", "401", 1)))
}

// TestWarnings_commands has validate and check tell of a cache in front, which stops neither.
func TestWarnings_commands(t *testing.T) {
	t.Parallel()
	const text = "write order cache after redis_ratelimit"
	file := caddytest.WriteCaddyfile(t, "http://127.0.0.1:8080 {\n\tcache\n\tredis_ratelimit {client_ip} 9 24h\n}\n")
	e := caddytest.Run{}.Caddy(t, "validate", "--config", file)
	assert.ErrorIf(t, strings.Count(e.Stderr, text) != 1 || !strings.Contains(e.Stdout, "Valid configuration"), "got %v", e)
	caddytest.RunRatelimit(t, nil, "check", "--config", file).Want(t, 1, "configuration  warning", "-> "+text)
}

// TestBouncers_order has the bouncers in front and behind: what they refuse in front is not counted.
func TestBouncers_order(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		order, bouncer string
		counted        bool
	}{
		{"", "defender", false}, {"order crowdsec first", "crowdsec", false}, {"order crowdsec before basic_auth", "crowdsec", true},
	} {
		n := start(t, test.order, test.bouncer+"\nredis_ratelimit {client_ip} 2 24h\nrespond ok")
		for i := range 4 {
			a := n.Get(t, "/", "X-Range: blocked")
			want := http.StatusForbidden
			if test.counted && i >= 2 {
				want = http.StatusTooManyRequests
			}
			assert.ErrorIf(t, a.Status != want, "%s, %q, request %d: got %v, want %d", test.bouncer, test.order, i+1, a, want)
		}
	}
}

// TestZones_inFront has mholt's rate_limit where it stands, and behind: a dry run then sees all requests.
func TestZones_inFront(t *testing.T) {
	t.Parallel()
	const site = "rate_limit\nredis_ratelimit {client_ip} 4 24h { name tried; dry_run }\nrespond ok"
	for order, seen := range map[string][2]string{"": {"2", ""}, "order redis_ratelimit before rate_limit": {"4", "2"}} {
		n := start(t, order, site)
		for i := range 6 {
			a := n.Get(t, "/")
			assert.ErrorIf(t, (a.Status == http.StatusTooManyRequests) != (i >= 2), "request %d: got %v", i+1, a)
		}
		metrics := n.Send(t, http.MethodGet, n.Admin+"/metrics", "").Body
		for i, decision := range []string{"dry_run_allowed", "dry_run_denied"} {
			line := `decisions_total{decision="` + decision + `",policy="tried",source="memory"} `
			_, count, _ := strings.Cut(metrics, line)
			count, _, _ = strings.Cut(count, "\n")
			assert.ErrorIf(t, count != seen[i], "%q: %s is %q, want %q", order, decision, count, seen[i])
		}
		if order == "" {
			warned(t, n, `policy \"tried\": requests that rate_limit refuses`)
		} else {
			warned(t, n)
		}
	}
}

// TestZones_placeholders has the error route of docs/responses.md, which asks first: it writes no placeholder into the 429
// of another handler in front.
func TestZones_placeholders(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(caddytest.ReadFile(t, "docs/responses.md"), "\n## Bodies of denials\n")
	example := wholeCaddyfile.FindStringSubmatch(section)
	assert.FatalIf(t, len(example) != 2 || !strings.HasPrefix(example[1], ":8080 {\n"), "docs/responses.md has no error route")
	site := strings.TrimSuffix(strings.TrimPrefix(example[1], ":8080 {\n"), "}\n")
	n := start(t, "", "rate_limit\n"+strings.Replace(site, " 100 1m", " 9 24h", 1))
	for range 2 {
		n.Get(t, "/").Want(t, http.StatusOK, "Hello.")
	}
	n.Get(t, "/").Want(t, http.StatusTooManyRequests, "")
	n = start(t, "", strings.Replace(site, " 100 1m", " 1 24h", 1))
	n.Get(t, "/")
	n.Get(t, "/").Want(t, http.StatusTooManyRequests, `*"policy":"default"}}`)
}

// TestLogins_order compares the places of log-ins with that of the limit: those in front know the user, and what they
// refuse is not counted.
func TestLogins_order(t *testing.T) {
	t.Parallel()
	const password = "$2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG"
	inFront := []string{"jwtauth", "authorize", "tailscale_auth", "basicauth"}
	for _, login := range append(slices.Clone(inFront), "basic_auth") {
		order, block := "", login
		switch login {
		case "jwtauth":
			order = "order jwtauth before basicauth"
		case "basicauth", "basic_auth":
			block += " { alice " + password + " }"
		}
		n := start(t, order, block+"\nredis_ratelimit {client_ip} 2 24h { count_if status 401 }\nrespond ok")
		counted := !slices.Contains(inFront, login)
		for i := range 4 {
			a := n.Get(t, "/")
			assert.ErrorIf(t, a.Status != http.StatusUnauthorized && (!counted || i < 2), "%s, request %d: got %v", login, i+1, a)
			assert.ErrorIf(t, counted && i >= 2 && a.Status != http.StatusTooManyRequests, "%s, request %d: got %v, want it counted", login, i+1, a)
		}
		if block != login {
			continue
		}
		n = start(t, order, login+"\nredis_ratelimit {http.auth.user.tenant} 2 24h { on_empty_key reject }\nrespond ok")
		for _, tenant := range []string{"acme", "bolt"} {
			caddytest.CheckQuota(t, n.Get(t, "/", "X-Token: "+tenant).Want(t, http.StatusOK, "ok"), 2, 1)
		}
		n.Get(t, "/").Want(t, http.StatusUnauthorized, caddytest.Any, caddytest.NoQuota)
	}
}

// TestFetchedRanges has a module of a CDN's ranges whose first fetch failed: all clients count as one, as they do not with
// ranges that are named.
func TestFetchedRanges(t *testing.T) {
	t.Parallel()
	for source, left := range map[string][2]int64{"cloudflare": {1, 0}, "static 127.0.0.1/32": {1, 1}} {
		n := start(t, "servers {\ntrusted_proxies "+source+"\nclient_ip_headers CF-Connecting-IP\n}", "redis_ratelimit {client_ip} 2 24h\nrespond ok")
		for i, client := range []string{"203.0.113.7", "203.0.113.8"} {
			caddytest.CheckQuota(t, n.Get(t, "/", "CF-Connecting-IP: "+client), 2, left[i])
		}
	}
}
