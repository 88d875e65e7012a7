package routetrace

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// named is a handler of another author by its name.
type named string

func (n named) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: caddy.ModuleID(HandlerSpace + string(n))}
}

func (named) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return next.ServeHTTP(w, r)
}

// TestWarnings_outer has handlers that decide what a limit gets to see, at several places in front of it.
func TestWarnings_outer(t *testing.T) {
	limit := &warnable{}
	matching := func(path string, handlers ...caddyhttp.MiddlewareHandler) caddyhttp.Route {
		return caddyhttp.Route{MatcherSets: caddyhttp.MatcherSets{{&caddyhttp.MatchPath{path}}}, Handlers: handlers}
	}
	all := func(handlers ...caddyhttp.MiddlewareHandler) caddyhttp.Route {
		return caddyhttp.Route{Handlers: handlers}
	}
	grouped := func(route caddyhttp.Route) caddyhttp.Route {
		route.Group = "handle"
		return route
	}
	terminal := func(route caddyhttp.Route) caddyhttp.Route {
		route.Terminal = true
		return route
	}
	inside := func(routes ...caddyhttp.Route) *caddyhttp.Subroute { return &caddyhttp.Subroute{Routes: routes} }
	everything := []caddyhttp.MatcherSets{nil}
	selected := []caddyhttp.MatcherSets{{{&caddyhttp.MatchPath{"/b"}}}}
	const cache, waf, other = named("cache"), named("waf"), named("rate_limit")
	for name, test := range map[string]struct {
		routes  caddyhttp.RouteList
		matches []caddyhttp.MatcherSets
		want    int
	}{
		"in one route":                 {caddyhttp.RouteList{all(cache, limit)}, everything, 1},
		"in routes of their own":       {caddyhttp.RouteList{all(cache), all(limit)}, everything, 1},
		"behind":                       {caddyhttp.RouteList{all(limit, cache)}, everything, 0},
		"each of them":                 {caddyhttp.RouteList{all(other, waf, cache, limit)}, everything, 3},
		"twice":                        {caddyhttp.RouteList{all(cache, cache, limit)}, everything, 1},
		"others":                       {caddyhttp.RouteList{all(named("encode"), named("templates"), limit)}, everything, 0},
		"for some, and some policies":  {caddyhttp.RouteList{matching("/a", cache), all(limit)}, selected, 0},
		"for some, and all":            {caddyhttp.RouteList{matching("/a", cache), all(limit)}, everything, 1},
		"for all, and some":            {caddyhttp.RouteList{all(cache), matching("/a", limit)}, selected, 1},
		"for some, and others":         {caddyhttp.RouteList{matching("/a", cache), matching("/b", limit)}, everything, 0},
		"for some, and the same":       {caddyhttp.RouteList{matching("/a", cache), matching("/a", limit)}, selected, 1},
		"of one group":                 {caddyhttp.RouteList{grouped(matching("/a", cache)), grouped(all(limit))}, everything, 0},
		"of another site":              {caddyhttp.RouteList{terminal(all(inside(all(cache)))), all(limit)}, everything, 0},
		"of a site":                    {caddyhttp.RouteList{terminal(matching("/*", inside(all(cache), all(limit)), limit))}, everything, 1},
		"of a subroute":                {caddyhttp.RouteList{all(inside(all(cache)), inside(matching("/a", limit)))}, everything, 1},
		"in front of errors":           {caddyhttp.RouteList{all(&caddyhttp.Subroute{Routes: caddyhttp.RouteList{all(cache)}, Errors: errorsOf(all(limit))})}, everything, 0},
		"among errors":                 {caddyhttp.RouteList{all(&caddyhttp.Subroute{Errors: errorsOf(all(cache))}, limit)}, everything, 0},
		"in front of all, and errors":  {caddyhttp.RouteList{all(cache, &caddyhttp.Subroute{Errors: errorsOf(all(waf))}, limit)}, everything, 1},
		"more than are kept, and this": {caddyhttp.RouteList{all(repeat(cache, 3*maxOuter)...), all(limit)}, everything, 1},
	} {
		servers := map[string]*caddyhttp.Server{"srv0": {Routes: test.routes}}
		limit.subject = Subject{Matches: test.matches, DryRuns: []string{"tried"}, CountingForbidden: []string{"blocks"}, JSON: "{}"}
		got := warningsOf(servers)
		assert.ErrorIf(t, len(got) != test.want, "%s: got %v, want %d", name, got, test.want)
	}
}

func errorsOf(routes ...caddyhttp.Route) *caddyhttp.HTTPErrorConfig {
	return &caddyhttp.HTTPErrorConfig{Routes: routes}
}

func repeat(handler caddyhttp.MiddlewareHandler, times int) (handlers []caddyhttp.MiddlewareHandler) {
	for range times {
		handlers = append(handlers, handler)
	}
	return handlers
}

// TestWarnings_outerTexts names the policy that a handler in front hides requests from, and no other.
func TestWarnings_outerTexts(t *testing.T) {
	for _, test := range []struct {
		name    string
		subject Subject
		want    []string
	}{
		{"cache", Subject{}, []string{"write order cache after redis_ratelimit"}},
		{"rate_limit", Subject{DryRuns: []string{"a", "b"}}, []string{`policy "a": requests that rate_limit`, `policy "b": requests that rate_limit`}},
		{"rate_limit", Subject{CountingForbidden: []string{"a"}}, nil},
		{"waf", Subject{CountingForbidden: []string{"a"}}, []string{`policy "a": what coraza_waf refuses`}},
		{"waf", Subject{DryRuns: []string{"a"}}, nil},
	} {
		handlers := []caddyhttp.MiddlewareHandler{named(test.name), &warnable{subject: test.subject}}
		got := warningsOf(map[string]*caddyhttp.Server{"srv0": {Routes: caddyhttp.RouteList{{Handlers: handlers}}}})
		assert.FatalIf(t, len(got) != len(test.want), "%s: got %v, want %v", test.name, got, test.want)
		for i, want := range test.want {
			assert.ErrorIf(t, !strings.Contains(got[i].Text, want), "%s: got %q, want %q", test.name, got[i].Text, want)
		}
	}
}

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
		got := warningsOf(servers)
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
