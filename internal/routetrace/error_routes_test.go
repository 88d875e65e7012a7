package routetrace

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/standard"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// provision returns the server of a configuration.
func provision(t *testing.T, config []byte) *caddyhttp.Server {
	t.Helper()
	parsed := new(caddy.Config)
	assert.Must(t, json.Unmarshal(config, parsed))
	ctx := assert.NoError(caddy.ProvisionContext(parsed))(t)
	module := assert.NoError(ctx.App("http"))(t)
	app, ok := module.(*caddyhttp.App)
	assert.FatalIf(t, !ok || len(app.Servers) != 1, "got %T, want an http app with one server", module)
	for _, server := range app.Servers {
		return server
	}
	return nil
}

// adapt returns the server that Caddy makes of sites.
func adapt(t *testing.T, sites string) *caddyhttp.Server {
	t.Helper()
	const global = "{\n\tadmin off\n\tauto_https off\n\tlog {\n\t\tlevel ERROR\n\t}\n}\n"
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(global+sites), nil)
	assert.FatalIf(t, err != nil, "%v", err)
	return provision(t, config)
}

// newRequest returns a request of a host and a path in a server.
func newRequest(server *caddyhttp.Server, host, path string) (*http.Request, *httptest.ResponseRecorder) {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "http://"+host+path, nil)
	return caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, server), w
}

// hasAnswer reports whether a server's error routes, as Caddy runs them, answer an error of a request.
func hasAnswer(t *testing.T, server *caddyhttp.Server, host, path string, status int) bool {
	t.Helper()
	r, w := newRequest(server, host, path)
	r = server.Errors.WithError(r, caddyhttp.Error(status, errors.New("refused")))
	empty := caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil })
	assert.Must(t, server.Errors.Routes.Compile(empty).ServeHTTP(w, r))
	return w.Body.Len() > 0
}

func TestErrorRoutes_sites(t *testing.T) {
	const all = "handle_errors { respond sorry }"
	for name, test := range map[string]struct {
		sites  string
		can    string // be handled: hosts and statuses
		cannot string
	}{
		"no block":        {":80 { respond ok }", "", "a.example 429, a.example 503"},
		"every status":    {":80 { " + all + " }", "a.example 429, a.example 400, a.example 599", ""},
		"404 alone":       {":80 { handle_errors 404 { respond sorry } }", "a.example 404", "a.example 429"},
		"one and others":  {":80 { handle_errors 404 429 { respond sorry } }", "a.example 429, a.example 404", "a.example 503"},
		"a class":         {":80 { handle_errors 4xx { respond sorry } }", "a.example 429, a.example 499", "a.example 503"},
		"classes and one": {":80 { handle_errors 500 4xx 6xx { respond sorry } }", "a.example 429, a.example 500", "a.example 503"},
		"two blocks": {":80 { handle_errors 404 { respond sorry } ; handle_errors 503 { respond sorry } }",
			"a.example 503", "a.example 429"},
		"another site's block": {"http://a.example { respond ok } http://b.example { " + all + " }",
			"b.example 429, B.example:80 429", "a.example 429, c.example 429"},
		"a site before a wildcard": {"http://*.example { " + all + " } http://a.example { handle_errors 404 { respond sorry } }",
			"a.example 404, b.example 429", "a.example 429"},
		"a wildcard for a site without a block": {"http://*.example { " + all + " } http://a.example { respond ok }",
			"a.example 429", ""}, // as Caddy does
		"a site with a path": {"http://a.example/shop* { " + all + " } http://b.example { respond ok }",
			"a.example 429", "b.example 429"},
		"a site with a path, then all of it": {"http://a.example/shop* { handle_errors 404 { respond sorry } } http://a.example { " + all + " }",
			"a.example 429", "b.example 429"},
		"a path matcher":         {":80 { handle_errors { respond /api/* sorry } }", "a.example 429", ""},
		"a path matcher for 404": {":80 { handle_errors 404 { respond /api/* sorry } }", "a.example 404", "a.example 429"},
		"an expression": {":80 { handle_errors { @rare expression `{err.status_code} == 404`; respond @rare sorry } }",
			"a.example 429", ""},
		"a host matcher": {":80 { handle_errors { @shop host shop.example; respond @shop sorry } }",
			"shop.example 429", "a.example 429"},
		"an empty block": {":80 { handle_errors { } }", "", "a.example 429"},
		"a header alone": {":80 { handle_errors { header X-Sorry yes } }", "a.example 429", ""},
		"a named route":  {"&(sorry) { respond sorry } :80 { invoke sorry }", "a.example 429", ""},
	} {
		t.Run(name, func(t *testing.T) {
			server, trees := adapt(t, unfolded.Replace(test.sites)), new(Trees)
			for range 2 { // decided, and as it was decided
				checkRequests(t, trees, server, test.can, true)
				checkRequests(t, trees, server, test.cannot, false)
			}
		})
	}
}

// unfolded gives each line of a block a line of its own.
var unfolded = strings.NewReplacer(" { ", " {\n", "; ", "\n", " }", "\n}\n")

// checkRequests checks whether errors of hosts and statuses, with commas between, can be handled.
func checkRequests(t *testing.T, trees *Trees, server *caddyhttp.Server, requests string, want bool) {
	t.Helper()
	for request := range strings.SplitSeq(requests, ", ") {
		host, code, found := strings.Cut(request, " ")
		if !found {
			continue // there are none
		}
		status := assert.NoError(strconv.Atoi(code))(t)
		r, _ := newRequest(server, host, "/")
		assert.Equal(t, trees.CanHandle(r, status), want, "%s can be handled", request)
	}
}

// TestErrorRoutes_withoutServer is a request that no server of Caddy serves.
func TestErrorRoutes_withoutServer(t *testing.T) {
	trees := new(Trees)
	assert.Equal(t, trees.CanHandle(httptest.NewRequest(http.MethodGet, "/", nil), 429), true, "an error can be handled")
	r, _ := newRequest(&caddyhttp.Server{}, "a.example", "/")
	assert.Equal(t, trees.CanHandle(r, 429), false, "an error can be handled without error routes")
}

// TestErrorRoutes_asCaddy compares random routes with what Caddy does: where no route can handle an error, none answers
// it; where all that decides can be known, one answers each that can be handled.
func TestErrorRoutes_asCaddy(t *testing.T) {
	const lists = 300
	random := rand.New(rand.NewPCG(1, 2))
	unknown := make([]bool, lists)
	handlers := make([]string, lists)
	for i := range handlers {
		g := routesMaker{Rand: random}
		handlers[i] = `{"handler":"subroute","routes":` + g.routes(3) + `}`
		unknown[i] = g.unknown
	}
	all := provision(t, []byte(`{"admin":{"disabled":true},"logging":{"logs":{"default":{"level":"ERROR"}}},"apps":{"http":{"servers":{
		"s":{"listen":[":80"],"automatic_https":{"disable":true},"routes":[{"handle":[`+strings.Join(handlers, ",")+`]}]}}}}}`))
	seen := map[string]int{}
	trees := new(Trees)
	for i, handler := range all.Routes[0].Handlers {
		subroute, ok := handler.(*caddyhttp.Subroute)
		assert.FatalIf(t, !ok, "handler %d is a %T", i, handler)
		server := &caddyhttp.Server{Errors: &caddyhttp.HTTPErrorConfig{Routes: subroute.Routes}}
		for _, host := range []string{"a.example", "b.example", "c.example"} {
			for _, status := range []int{404, 429, 503} {
				r, _ := newRequest(server, host, "/")
				can := trees.CanHandle(r, status)
				one, other := hasAnswer(t, server, host, "/", status), hasAnswer(t, server, host, "/x", status)
				if !can && (one || other) || !unknown[i] && can != one {
					t.Errorf("%d at %s: can be handled %t, Caddy answers %t and %t, by %s", status, host, can, one, other, handlers[i])
				}
				seen[fmt.Sprint(can, one, other, unknown[i])]++
			}
		}
	}
	kinds := []string{
		"true true true false", "false false false false", "true false true true", "true true true true", "false false false true",
	}
	for _, kind := range kinds {
		assert.ErrorIf(t, seen[kind] == 0, "nothing is %s: %v", kind, seen)
	}
}

// routesMaker makes random routes.
type routesMaker struct {
	*rand.Rand
	unknown bool // a path decides
}

// routes returns a list of routes with so many lists within one another.
func (g *routesMaker) routes(deep int) string {
	list := make([]string, g.IntN(4))
	for i := range list {
		terminal := g.IntN(3) == 0
		list[i] = fmt.Sprintf(`{"match":[%s],"handle":[%s],"terminal":%t}`, g.sets(), g.handlers(deep-1), terminal)
	}
	return "[" + strings.Join(list, ",") + "]"
}

// sets returns matchers of a route.
func (g *routesMaker) sets() string {
	sets := make([]string, g.IntN(3))
	for i := range sets {
		var matchers []string
		if g.IntN(2) == 0 {
			matchers = append(matchers, `"host":["`+[]string{"a.example", "b.example", "*.example"}[g.IntN(3)]+`"]`)
		}
		if g.IntN(2) == 0 {
			matchers = append(matchers, `"expression":"`+
				[]string{
					"{http.error.status_code} in [404]", "{http.error.status_code} in [503, 429]",
					"{http.error.status_code} >= 400 && {http.error.status_code} <= 499",
					"{http.error.status_code} >= 400 && {http.error.status_code} <= 499 || {http.error.status_code} in [503]",
				}[g.IntN(4)]+`"`)
		}
		if g.IntN(6) == 0 {
			matchers, g.unknown = append(matchers, `"path":["/x"]`), true
		}
		sets[i] = "{" + strings.Join(matchers, ",") + "}"
	}
	return strings.Join(sets, ",")
}

// handlers returns the handlers of a route: an answer, or routes.
func (g *routesMaker) handlers(deep int) string {
	switch {
	case g.IntN(8) == 0:
		return ""
	case deep == 0 || g.IntN(3) == 0:
		return `{"handler":"static_response","body":"answer"}`
	}
	return `{"handler":"subroute","routes":` + g.routes(deep) + `}`
}

func TestStatusesNamed_others(t *testing.T) {
	for _, expression := range []string{
		"", "{http.error.status_code} == 404", "{http.error.status_code} in [404] && path('/x')", "{http.error.status_code} in []",
		"{http.error.status_code} in [404] || true", "{http.error.status_code} >= 400", "!({http.error.status_code} in [404])",
		"{http.error.status_code} in [404", "{http.error.status_code} >= 400 && {http.error.status_code} <= x", "{err.status_code} in [404]",
		"{http.error.status_code} >= 400 && {http.error.status_code} <= 499 && false",
	} {
		_, isList := statusesNamed(expression)
		assert.ErrorIf(t, isList, "%q is taken for the expression of handle_errors", expression)
	}
}
