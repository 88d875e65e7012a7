package caddytest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestDenial_reaches_whoever_handles_errors has error routes at the server, in a subroute, and
// nowhere.
func TestDenial_reaches_whoever_handles_errors(t *testing.T) {
	const (
		limit   = `{"handler": "redis_ratelimit", "policies": [{"name": "%s", "limit": 1, "window": "24h"}]}`
		respond = `{"handler": "static_response", "body": "{http.error.status_code} %s"}`
	)
	errorRoutes := func(who string) string {
		return `"errors": {"routes": [{"handle": [` + fmt.Sprintf(respond, who) + `]}]}`
	}
	inner := func(name, more string) string {
		return `{"handler": "subroute"` + more + `, "routes": [{"handle": [` + fmt.Sprintf(limit, name) + `]}]}`
	}
	for name, test := range map[string]struct{ subroute, server, want string }{
		"nowhere":     {"", "", ""},
		"at_server":   {"", ", " + errorRoutes("server"), "429 server"},
		"in_subroute": {", " + errorRoutes("subroute"), "", "429 subroute"},
		"in_both":     {", " + errorRoutes("subroute"), ", " + errorRoutes("server"), "429 subroute"},
	} {
		t.Run(name, func(t *testing.T) {
			n := start(t, config("", "respond old"))
			listen := strings.TrimPrefix(n.URL, "http://")
			a := n.send(t, http.MethodPost, n.Admin+"/load", `{"admin": {"listen": "`+strings.TrimPrefix(n.Admin, "http://")+`"},
				"apps": {"http": {"grace_period": "1s", "servers": {"s": {"listen": ["`+listen+`"], "automatic_https": {"disable": true},
				"routes": [{"handle": [`+inner(name, test.subroute)+`]}]`+test.server+`}}}}}`, "Content-Type: application/json")
			if a.status != http.StatusOK {
				t.Fatalf("got %v", a)
			}
			n.client.CloseIdleConnections()
			checkShare(t, n.get(t, "/"), 1, 0)
			a = n.get(t, "/")
			if a.status != http.StatusTooManyRequests || a.body != test.want {
				t.Errorf("got %v; want %q", a, test.want)
			}
			checkShare(t, a, 1, 0)
			if a.header.Get("Retry-After") == "" || a.header.Get("Cache-Control") != "no-store" {
				t.Errorf("got %v", a)
			}
		})
	}
}

// TestRefusals_by_error_routes_are_answered has routes for errors that have limits of their own.
func TestRefusals_by_error_routes_are_answered(t *testing.T) {
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
		checkShare(t, a, 2, left)
		if a.status != http.StatusNotFound || a.body != "not here" {
			t.Errorf("got %v; want the error route's answer", a)
		}
	}
	a := n.get(t, "/limited")
	checkRefusal(t, a, http.StatusTooManyRequests)
	checkShare(t, a, 2, 0)
	checkRefusal(t, n.get(t, "/closed"), http.StatusServiceUnavailable)
	if a := n.get(t, "/empty"); a.status != http.StatusBadRequest {
		t.Errorf("got %v; want 400", a)
	}
	if lines := n.log.lines(func(l logLine) bool { return l.Level == "error" }); len(lines) > 0 {
		t.Errorf("the log has the errors %v", lines)
	}
}
