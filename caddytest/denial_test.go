package caddytest

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestDenial_errorRoutes has error routes at the server, in a subroute, in one that invokes the limit as a
// named route, and none.
func TestDenial_errorRoutes(t *testing.T) {
	const (
		limit   = `{"handler": "redis_ratelimit", "policies": [{"name": "%s", "limit": 1, "window": "24h"}]}`
		respond = `{"handler": "static_response", "body": "{http.error.status_code} %s"}`
	)
	errorRoutes := func(who string) string {
		return `"errors": {"routes": [{"handle": [` + fmt.Sprintf(respond, who) + `]}]}`
	}
	const invoke = `{"handler": "invoke", "name": "limits"}`
	inner := func(handler, more string) string {
		return `{"handler": "subroute"` + more + `, "routes": [{"handle": [` + handler + `]}]}`
	}
	for name, test := range map[string]struct{ subroute, server, want string }{
		"nowhere":     {"", "", ""},
		"at_server":   {"", ", " + errorRoutes("server"), "429 server"},
		"in_subroute": {", " + errorRoutes("subroute"), "", "429 subroute"},
		"in_both":     {", " + errorRoutes("subroute"), ", " + errorRoutes("server"), "429 subroute"},
		"invoked":     {", " + errorRoutes("subroute"), `, "named_routes": {"limits": {"handle": [` + fmt.Sprintf(limit, "invoked") + `]}}`, "429 subroute"},
	} {
		t.Run(name, func(t *testing.T) {
			n := start(t, config("", "respond old"))
			listen := strings.TrimPrefix(n.URL, "http://")
			handler := fmt.Sprintf(limit, name)
			if name == "invoked" {
				handler = invoke
			}
			a := n.send(t, http.MethodPost, n.Admin+"/load", `{"admin": {"listen": "`+strings.TrimPrefix(n.Admin, "http://")+`"},
				"apps": {"http": {"grace_period": "1s", "servers": {"s": {"listen": ["`+listen+`"], "automatic_https": {"disable": true},
				"routes": [{"handle": [`+inner(handler, test.subroute)+`]}]`+test.server+`}}}}}`, "Content-Type: application/json")
			if a.status != http.StatusOK {
				t.Fatalf("got %v", a)
			}
			n.client.CloseIdleConnections()
			checkQuota(t, n.get(t, "/"), 1, 0)
			a = n.get(t, "/")
			if a.status != http.StatusTooManyRequests || a.body != test.want {
				t.Errorf("got %v; want %q", a, test.want)
			}
			checkQuota(t, a, 1, 0)
			if a.header.Get("Retry-After") == "" || a.header.Get("Cache-Control") != "no-store" {
				t.Errorf("got %v", a)
			}
		})
	}
}

// TestDenial_limitInErrorRoutes has error routes with limits of their own.
func TestDenial_limitInErrorRoutes(t *testing.T) {
	n := start(t, config("redis_ratelimit {\nredis redis://"+redistest.FreeAddr(t)+"\n}", `handle_errors 404 {
		redis_ratelimit /limited same 2 24h {
			name e404
		}
		redis_ratelimit /closed same 2 24h {
			name closed
			fail_mode closed
		}
		redis_ratelimit /empty {header.X-Key} 2 24h {
			name empty
			on_empty_key reject
		}
		respond "not here"
	}
	error 404`))
	for left := int64(1); left >= 0; left-- {
		a := n.get(t, "/limited")
		checkQuota(t, a, 2, left)
		if a.status != http.StatusNotFound || a.body != "not here" {
			t.Errorf("got %v; want the error route's answer", a)
		}
	}
	a := n.get(t, "/limited")
	checkRefusal(t, a, http.StatusTooManyRequests)
	checkQuota(t, a, 2, 0)
	checkRefusal(t, n.get(t, "/closed"), http.StatusServiceUnavailable)
	if a := n.get(t, "/empty"); a.status != http.StatusBadRequest {
		t.Errorf("got %v; want 400", a)
	}
	if lines := n.log.lines(func(l logLine) bool { return l.Level == "error" }); len(lines) > 0 {
		t.Errorf("the log has the errors %v", lines)
	}
}

// TestDenial_cachedHeaders has one of two policies deny from the deny cache. The other one is not decided
// then, and only its limit is shown.
func TestDenial_cachedHeaders(t *testing.T) {
	server := redistest.Start(t)
	n := start(t, config(patient(server), `redis_ratelimit {
		policy small {
			limit 2
			window 24h
		}
		policy large {
			limit 100
			window 24h
		}
		headers x_ratelimit ietf
	}`+showDecision))
	for range 2 {
		n.get(t, "/")
	}
	for _, want := range []struct{ body, fields string }{
		{"denied redis", `"small";r=0;t=T, "large";r=98;t=T`},
		{"denied deny_cache", `"small";r=0;t=T`},
	} {
		a := n.get(t, "/")
		fields := regexp.MustCompile(`t=\d+`).ReplaceAllString(a.header.Get("RateLimit"), "t=T")
		if a.body != want.body || fields != want.fields {
			t.Errorf("got %v; want %s and %s", a, want.body, want.fields)
		}
		checkQuota(t, a, 2, 0)
		if quotas := a.header.Get("RateLimit-Policy"); quotas != `"small";q=2;w=86400, "large";q=100;w=86400` {
			t.Errorf("RateLimit-Policy: %s", quotas)
		}
	}
}
