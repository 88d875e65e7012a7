package routetrace

import (
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/fileserver"
	caddymap "github.com/caddyserver/caddy/v2/modules/caddyhttp/map"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/rewrite"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// TestWarnings_moves has paths moved at places that no Caddyfile has.
func TestWarnings_moves(t *testing.T) {
	limit := func(path string) *warnable {
		match := caddyhttp.MatcherSets{{&caddyhttp.MatchPath{path}}}
		return &warnable{subject: Subject{Matches: []caddyhttp.MatcherSets{match}, JSON: path}}
	}
	to := func(uri string) *rewrite.Rewrite { return &rewrite.Rewrite{URI: uri} }
	all := func(handlers ...caddyhttp.MiddlewareHandler) caddyhttp.Route {
		return caddyhttp.Route{Handlers: handlers}
	}
	at := func(path string, handlers ...caddyhttp.MiddlewareHandler) caddyhttp.Route {
		return caddyhttp.Route{MatcherSets: caddyhttp.MatcherSets{{&caddyhttp.MatchPath{path}}}, Handlers: handlers}
	}
	grouped := func(route caddyhttp.Route) caddyhttp.Route { route.Group = "g"; return route }
	terminal := func(route caddyhttp.Route) caddyhttp.Route { route.Terminal = true; return route }
	inside := func(routes ...caddyhttp.Route) *caddyhttp.Subroute { return &caddyhttp.Subroute{Routes: routes} }
	tried := func(handler caddyhttp.MiddlewareHandler, files ...string) caddyhttp.Route {
		return caddyhttp.Route{MatcherSets: caddyhttp.MatcherSets{{&fileserver.MatchFile{TryFiles: files}}}, Handlers: []caddyhttp.MiddlewareHandler{handler}}
	}
	foreign := &struct{ caddyhttp.MiddlewareHandler }{}
	for name, test := range map[string]struct {
		routes caddyhttp.RouteList
		want   int
	}{
		"in one route":                  {caddyhttp.RouteList{all(to("/x"), limit("/a"))}, 1},
		"in one route for the path":     {caddyhttp.RouteList{at("/a", to("/x"), limit("/a"))}, 1},
		"behind the limit":              {caddyhttp.RouteList{all(limit("/a"), to("/x"))}, 0},
		"to the path":                   {caddyhttp.RouteList{all(to("/A/"), limit("/a"))}, 0},
		"to a path below":               {caddyhttp.RouteList{all(to("/a{http.request.uri.path}"), limit("/a/*"))}, 0},
		"to any path":                   {caddyhttp.RouteList{all(to("{http.request.header.X}"), limit("/a"))}, 0},
		"to a script's path":            {caddyhttp.RouteList{all(to("/index.php/{http.request.uri.path}"), limit("/a"))}, 0},
		"back":                          {caddyhttp.RouteList{all(to("/x")), at("/x", to("/a")), all(limit("/a"))}, 0},
		"back by another author":        {caddyhttp.RouteList{all(to("/x"), foreign, limit("/a"))}, 0},
		"for another path":              {caddyhttp.RouteList{at("/b", to("/x")), all(limit("/a"))}, 0},
		"for a part":                    {caddyhttp.RouteList{at("/a/b/*", to("/x")), all(limit("/a/*"))}, 0},
		"for more":                      {caddyhttp.RouteList{at("/A*", to("/x")), all(limit("/a/*"))}, 1},
		"inside of another route":       {caddyhttp.RouteList{at("/b/*", inside(all(to("/x")))), all(limit("/a"))}, 0},
		"inside of a subroute":          {caddyhttp.RouteList{all(inside(all(to("/x")))), all(limit("/a"))}, 1},
		"in a route that ends":          {caddyhttp.RouteList{terminal(all(to("/x"))), all(limit("/a"))}, 0},
		"of a group of rewrites":        {caddyhttp.RouteList{grouped(at("/b", to("/y"))), grouped(all(to("/x"))), all(limit("/a"))}, 1},
		"of a group of rewrites, to it": {caddyhttp.RouteList{grouped(at("/b", to("/a"))), grouped(all(to("/x"))), all(limit("/a"))}, 0},
		"of a group of others":          {caddyhttp.RouteList{grouped(at("/a", limit("/b"))), grouped(all(to("/x"))), all(limit("/a"))}, 0},
		"in front of error routes":      {caddyhttp.RouteList{all(to("/x"), &caddyhttp.Subroute{Errors: errorsOf(all(limit("/a")))})}, 0},
		"behind error routes":           {caddyhttp.RouteList{all(&caddyhttp.Subroute{Errors: errorsOf(all(to("/x")))}, limit("/a"))}, 0},
		"of a named route":              {caddyhttp.RouteList{all(to("/x"), &caddyhttp.Invoke{Name: "none"}, limit("/a"))}, 0},
		"files":                         {caddyhttp.RouteList{tried(to(fileOfURI), requestedPath, "/x"), all(limit("/a"))}, 1},
		"files with an extension":       {caddyhttp.RouteList{tried(to(fileOfURI), requestedPath, "/x"), all(limit("/a.js"))}, 0},
		"files below":                   {caddyhttp.RouteList{tried(to(fileOfURI), requestedPath, "/x"), all(limit("/a/*"))}, 0},
		"files, else an error":          {caddyhttp.RouteList{tried(to(fileOfURI), requestedPath, "=404"), all(limit("/a"))}, 0},
		"no file":                       {caddyhttp.RouteList{tried(to(fileOfURI)), all(limit("/a"))}, 0},
		"one file":                      {caddyhttp.RouteList{tried(to(fileOfURI), "/x"), all(limit("/a"))}, 0},
		"nothing":                       {caddyhttp.RouteList{all(&rewrite.Rewrite{}, &rewrite.Rewrite{Method: "GET"}, limit("/a"))}, 0},
		"a pattern with a star inside":  {caddyhttp.RouteList{all(to("/x"), limit("/a/*/b"))}, 0},
		"a placeholder":                 {caddyhttp.RouteList{all(to("/x"), limit("{http.vars.path}"))}, 0},
		"more than are kept":            {caddyhttp.RouteList{all(to("/x")), all(repeat(to("/y"), 3*maxMoves)...), all(limit("/a"))}, 0},
	} {
		got := warningsOf(map[string]*caddyhttp.Server{"srv0": {Routes: test.routes}})
		assert.ErrorIf(t, len(got) != test.want, "%s: got %v, want %d", name, got, test.want)
	}
}

// TestWarnings_maps has outputs of map that the next map replaces, and handlers that were not set up.
func TestWarnings_maps(t *testing.T) {
	limit := &warnable{subject: Subject{Placeholders: []string{"plan"}}}
	outputs := func(output any) *caddymap.Handler {
		return &caddymap.Handler{Destinations: []string{"plan"}, Mappings: []caddymap.Mapping{{InputRegexp: ".", Outputs: []any{output}}}}
	}
	const text = "{http.vars.x}"
	for name, test := range map[string]struct {
		handlers []caddyhttp.MiddlewareHandler
		want     int
	}{
		"a placeholder":   {[]caddyhttp.MiddlewareHandler{outputs("a-" + text), limit}, 1},
		"replaced":        {[]caddyhttp.MiddlewareHandler{outputs(text), outputs("a"), limit}, 0},
		"behind":          {[]caddyhttp.MiddlewareHandler{limit, outputs(text)}, 0},
		"a group":         {[]caddyhttp.MiddlewareHandler{outputs("${name}"), limit}, 0},
		"a number":        {[]caddyhttp.MiddlewareHandler{outputs(5), limit}, 0},
		"null":            {[]caddyhttp.MiddlewareHandler{outputs(nil), limit}, 0},
		"without outputs": {[]caddyhttp.MiddlewareHandler{&caddymap.Handler{Destinations: []string{"plan", "b"}, Mappings: make([]caddymap.Mapping, 2)}, limit}, 0},
	} {
		routes := caddyhttp.RouteList{{Handlers: test.handlers}}
		got := warningsOf(map[string]*caddyhttp.Server{"srv0": {Routes: routes}})
		assert.ErrorIf(t, len(got) != test.want, "%s: got %v, want %d", name, got, test.want)
	}
}

func TestIsOneEdit(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"costumer", "customer", true},
		{"custmer", "customer", true},
		{"customers", "customer", true},
		{"Customer", "customer", true},
		{"teir", "tier", true},
		{"customer", "customer", false},
		{"cstmer", "customer", false},
		{"a", "b", false},
		{"", "a", false},
		{"", "", false},
		{"plan", "tier", false},
		{"aaaa", "aaaaaa", false},
		{"abcd", "dcba", false},
	} {
		assert.Equal(t, isOneEdit(test.a, test.b), test.want, "%q and %q", test.a, test.b)
		assert.Equal(t, isOneEdit(test.b, test.a), test.want, "%q and %q", test.b, test.a)
	}
}
