package routetrace

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// waiterOf returns a handler whose requests wait. Its name is the policy and, behind a blank, the key.
func waiterOf(name string, match caddyhttp.MatcherSets) *warnable {
	policy, key, _ := strings.Cut(name, " ")
	w := &warnable{subject: Subject{
		Matches: []caddyhttp.MatcherSets{match}, Waiter: &Waiter{Policy: policy, Key: key, Match: match},
	}}
	w.subject.JSON = fmt.Sprintf("%p", w)
	return w
}

// TestWarnings_waiters has requests wait for a place with one of another policy, in one order and in both.
func TestWarnings_waiters(t *testing.T) {
	t.Parallel()
	at := func(name string) caddyhttp.MiddlewareHandler { return waiterOf(name, nil) }
	all := func(handlers ...caddyhttp.MiddlewareHandler) caddyhttp.Route {
		return caddyhttp.Route{Handlers: handlers}
	}
	sets := func(path string) caddyhttp.MatcherSets { return caddyhttp.MatcherSets{{&caddyhttp.MatchPath{path}}} }
	matching := func(path string, handlers ...caddyhttp.MiddlewareHandler) caddyhttp.Route {
		return caddyhttp.Route{MatcherSets: sets(path), Handlers: handlers}
	}
	site := func(path string, handlers ...caddyhttp.MiddlewareHandler) caddyhttp.Route {
		r := matching(path, &caddyhttp.Subroute{Routes: caddyhttp.RouteList{all(handlers...)}})
		r.Terminal = true
		return r
	}
	const both, itself = "in both orders", "from a directive in front"
	for name, test := range map[string]struct {
		routes caddyhttp.RouteList
		want   string // empty: no warning
	}{
		"one order":                 {caddyhttp.RouteList{site("/1", at("a"), at("b")), site("/2", at("a"), at("b"))}, ""},
		"both orders":               {caddyhttp.RouteList{site("/1", at("a"), at("b")), site("/2", at("b"), at("a"))}, both},
		"both orders in one list":   {caddyhttp.RouteList{all(at("a"), at("b"), at("a"))}, itself},
		"both orders, other keys":   {caddyhttp.RouteList{site("/1", at("a 1"), at("b 1")), site("/2", at("b 2"), at("a 2"))}, ""},
		"one of each site":          {caddyhttp.RouteList{site("/1", at("a")), site("/2", at("b")), site("/3", at("a"))}, ""},
		"one policy for two paths":  {caddyhttp.RouteList{matching("/1", at("a")), matching("/2", at("a"))}, ""},
		"one policy for some twice": {caddyhttp.RouteList{matching("/1", at("a")), all(at("a"))}, itself},
		"one policy for two keys":   {caddyhttp.RouteList{all(at("a 1"), at("a 2"))}, ""},
		"policies that exclude each other": {caddyhttp.RouteList{all(
			waiterOf("a", sets("/1")), waiterOf("a", sets("/2")))}, ""},
		"behind an error":    {caddyhttp.RouteList{all(&caddyhttp.Subroute{Routes: caddyhttp.RouteList{all(at("a"))}, Errors: errorsOf(all(at("a")))})}, ""},
		"more than are kept": {caddyhttp.RouteList{all(repeat(at("c"), 3*maxOuter)...), all(at("a"), at("c"))}, itself},
	} {
		servers := map[string]*caddyhttp.Server{"srv0": {Routes: test.routes}}
		got := Warnings(servers)
		found := 0
		for _, warning := range got {
			if strings.Contains(warning.Text, test.want) {
				found++
			}
		}
		want := 1
		if test.want == "" {
			want = 0
		}
		assert.ErrorIf(t, found != want, "%s: got %v, want %q", name, got, test.want)
	}
}
