// Package requests tests what requests get while all is well: decisions, headers, refunds, charges and logs.
package requests

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestDenial_errorRoutes has error routes at the server, in a subroute, in one that invokes the limit as a
// named route, and none.
func TestDenial_errorRoutes(t *testing.T) {
	t.Parallel()
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
			n := caddytest.Start(t, caddytest.Config("", "respond old"))
			listen := strings.TrimPrefix(n.URL, "http://")
			handler := fmt.Sprintf(limit, name)
			if name == "invoked" {
				handler = invoke
			}
			a := n.Send(t, http.MethodPost, n.Admin+"/load", `{"admin": {"listen": "`+strings.TrimPrefix(n.Admin, "http://")+`"},
				"apps": {"http": {"grace_period": "1s", "servers": {"s": {"listen": ["`+listen+`"], "automatic_https": {"disable": true},
				"routes": [{"handle": [`+inner(handler, test.subroute)+`]}]`+test.server+`}}}}}`, "Content-Type: application/json")
			if a.Status != http.StatusOK {
				t.Fatalf("got %v", a)
			}
			n.Client.CloseIdleConnections()
			caddytest.CheckQuota(t, n.Get(t, "/"), 1, 0)
			a = n.Get(t, "/")
			if a.Status != http.StatusTooManyRequests || a.Body != test.want {
				t.Errorf("got %v; want %q", a, test.want)
			}
			caddytest.CheckQuota(t, a, 1, 0)
			if a.Header.Get("Retry-After") == "" || a.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("got %v", a)
			}
		})
	}
}

// TestDenial_limitInErrorRoutes has error routes with limits of their own.
func TestDenial_limitInErrorRoutes(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\nredis redis://"+redistest.FreeAddr(t)+"\n}", `handle_errors 404 {
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
		a := n.Get(t, "/limited")
		caddytest.CheckQuota(t, a, 2, left)
		if a.Status != http.StatusNotFound || a.Body != "not here" {
			t.Errorf("got %v; want the error route's answer", a)
		}
	}
	a := n.Get(t, "/limited")
	caddytest.CheckRefusal(t, a, http.StatusTooManyRequests)
	caddytest.CheckQuota(t, a, 2, 0)
	caddytest.CheckRefusal(t, n.Get(t, "/closed"), http.StatusServiceUnavailable)
	if a := n.Get(t, "/empty"); a.Status != http.StatusBadRequest {
		t.Errorf("got %v; want 400", a)
	}
	if lines := n.Log.Lines(func(l caddytest.LogLine) bool { return l.Level == "error" }); len(lines) > 0 {
		t.Errorf("the log has the errors %v", lines)
	}
}

// TestDenial_cachedHeaders has one of two policies deny from the deny cache. The other one is not decided
// then, and only its limit is shown.
func TestDenial_cachedHeaders(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := caddytest.Start(t, caddytest.Config(caddytest.PatientRedis(server), `redis_ratelimit {
		policy small {
			limit 2
			window 24h
		}
		policy large {
			limit 100
			window 24h
		}
		headers x_ratelimit ietf
	}`+caddytest.ShowDecision))
	for range 2 {
		n.Get(t, "/")
	}
	for _, want := range []struct{ body, fields string }{
		{"denied redis", `"small";r=0;t=T, "large";r=98;t=T`},
		{"denied deny_cache", `"small";r=0;t=T`},
	} {
		a := n.Get(t, "/")
		fields := regexp.MustCompile(`t=\d+`).ReplaceAllString(a.Header.Get("RateLimit"), "t=T")
		if a.Body != want.body || fields != want.fields {
			t.Errorf("got %v; want %s and %s", a, want.body, want.fields)
		}
		caddytest.CheckQuota(t, a, 2, 0)
		if quotas := a.Header.Get("RateLimit-Policy"); quotas != `"small";q=2;w=86400, "large";q=100;w=86400` {
			t.Errorf("RateLimit-Policy: %s", quotas)
		}
	}
}
