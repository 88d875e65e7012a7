package errorroute

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
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
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte("{\n\tadmin off\n\tauto_https off\n\tlog {\n\t\tlevel ERROR\n\t}\n}\n"+sites), nil)
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
	assert.Must(t, server.Errors.Routes.Compile(caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil })).ServeHTTP(w, r))
	return w.Body.Len() > 0
}

func TestCanHandle_sites(t *testing.T) {
	for name, test := range map[string]struct {
		sites string
		want  map[string]bool // by host and status
	}{
		"no block":       {":80 {\n}", map[string]bool{"a.example 429": false, "a.example 503": false}},
		"every status":   {":80 {\nhandle_errors {\nrespond sorry\n}\n}", map[string]bool{"a.example 429": true, "a.example 400": true, "a.example 599": true}},
		"404 alone":      {":80 {\nhandle_errors 404 {\nrespond sorry\n}\n}", map[string]bool{"a.example 429": false, "a.example 404": true}},
		"one and others": {":80 {\nhandle_errors 404 429 {\nrespond sorry\n}\n}", map[string]bool{"a.example 429": true, "a.example 404": true, "a.example 503": false}},
		"a class":        {":80 {\nhandle_errors 4xx {\nrespond sorry\n}\n}", map[string]bool{"a.example 429": true, "a.example 499": true, "a.example 503": false}},
		"classes and one": {":80 {\nhandle_errors 500 4xx 6xx {\nrespond sorry\n}\n}",
			map[string]bool{"a.example 429": true, "a.example 500": true, "a.example 503": false}},
		"two blocks": {":80 {\nhandle_errors 404 {\nrespond sorry\n}\nhandle_errors 503 {\nrespond sorry\n}\n}",
			map[string]bool{"a.example 429": false, "a.example 503": true}},
		"another site's block": {"http://a.example {\n}\nhttp://b.example {\nhandle_errors {\nrespond sorry\n}\n}",
			map[string]bool{"a.example 429": false, "b.example 429": true, "B.example:80 429": true, "c.example 429": false}},
		"a site before a wildcard": {"http://*.example {\nhandle_errors {\nrespond sorry\n}\n}\nhttp://a.example {\nhandle_errors 404 {\nrespond sorry\n}\n}",
			map[string]bool{"a.example 429": false, "a.example 404": true, "b.example 429": true}},
		"a site without a block before a wildcard": {"http://*.example {\nhandle_errors {\nrespond sorry\n}\n}\nhttp://a.example {\n}",
			map[string]bool{"a.example 429": true}}, // Caddy runs the wildcard's
		"a site with a path": {"http://a.example/shop* {\nhandle_errors {\nrespond sorry\n}\n}\nhttp://b.example {\n}",
			map[string]bool{"a.example 429": true, "b.example 429": false}},
		"a site with a path, then all of it": {"http://a.example/shop* {\nhandle_errors 404 {\nrespond sorry\n}\n}\nhttp://a.example {\nhandle_errors {\nrespond sorry\n}\n}",
			map[string]bool{"a.example 429": true, "b.example 429": false}},
		"a path matcher": {":80 {\nhandle_errors {\nrespond /api/* sorry\n}\n}", map[string]bool{"a.example 429": true}},
		"a path matcher for another status": {":80 {\nhandle_errors 404 {\nrespond /api/* sorry\n}\n}",
			map[string]bool{"a.example 429": false, "a.example 404": true}},
		"an expression of one's own": {":80 {\nhandle_errors {\n@rare expression `{err.status_code} == 404`\nrespond @rare sorry\n}\n}", map[string]bool{"a.example 429": true}},
		"a host matcher": {":80 {\nhandle_errors {\n@shop host shop.example\nrespond @shop sorry\n}\n}",
			map[string]bool{"a.example 429": false, "shop.example 429": true}},
		"an empty block": {":80 {\nhandle_errors {\n}\n}", map[string]bool{"a.example 429": false}},
		"a header alone": {":80 {\nhandle_errors {\nheader X-Sorry yes\n}\n}", map[string]bool{"a.example 429": true}},
		"a named route":  {"&(sorry) {\nrespond sorry\n}\n:80 {\ninvoke sorry\n}", map[string]bool{"a.example 429": true}},
	} {
		t.Run(name, func(t *testing.T) {
			server, servers := adapt(t, test.sites), new(Servers)
			for range 2 { // decided, and as it was decided
				for request, want := range test.want {
					host, code, _ := strings.Cut(request, " ")
					status := 0
					assert.NoError(fmt.Sscan(code, &status))(t)
					r, _ := newRequest(server, host, "/")
					assert.Equal(t, servers.CanHandle(r, status), want, "%s can be handled", request)
				}
			}
		})
	}
}

// TestCanHandle_withoutServer is a request that no server of Caddy serves.
func TestCanHandle_withoutServer(t *testing.T) {
	servers := new(Servers)
	assert.Equal(t, servers.CanHandle(httptest.NewRequest(http.MethodGet, "/", nil), 429), true, "an error can be handled")
	r, _ := newRequest(&caddyhttp.Server{}, "a.example", "/")
	assert.Equal(t, servers.CanHandle(r, 429), false, "an error can be handled without error routes")
}

// TestCanHandle_asCaddy compares random routes with what Caddy does: where no route can handle an error, none answers
// it; where all that decides can be known, one answers each that can be handled.
func TestCanHandle_asCaddy(t *testing.T) {
	const trees = 300
	random := rand.New(rand.NewPCG(1, 2))
	unknown := make([]bool, trees)
	handlers := make([]string, trees)
	for i := range handlers {
		g := tree{Rand: random}
		handlers[i] = `{"handler":"subroute","routes":` + g.routes(3) + `}`
		unknown[i] = g.unknown
	}
	all := provision(t, []byte(`{"admin":{"disabled":true},"logging":{"logs":{"default":{"level":"ERROR"}}},"apps":{"http":{"servers":{"s":{"listen":[":80"],"automatic_https":{"disable":true},"routes":[{"handle":[`+
		strings.Join(handlers, ",")+`]}]}}}}}`))
	seen := map[string]int{}
	servers := new(Servers)
	for i, handler := range all.Routes[0].Handlers {
		subroute, ok := handler.(*caddyhttp.Subroute)
		assert.FatalIf(t, !ok, "handler %d is a %T", i, handler)
		server := &caddyhttp.Server{Errors: &caddyhttp.HTTPErrorConfig{Routes: subroute.Routes}}
		for _, host := range []string{"a.example", "b.example", "c.example"} {
			for _, status := range []int{404, 429, 503} {
				r, _ := newRequest(server, host, "/")
				can := servers.CanHandle(r, status)
				one, other := hasAnswer(t, server, host, "/", status), hasAnswer(t, server, host, "/x", status)
				if !can && (one || other) || !unknown[i] && can != one {
					t.Errorf("%d at %s: can be handled %t, Caddy answers %t and %t, by %s", status, host, can, one, other, handlers[i])
				}
				seen[fmt.Sprint(can, one, other, unknown[i])]++
			}
		}
	}
	for _, kind := range []string{"true true true false", "false false false false", "true false true true", "true true true true", "false false false true"} {
		assert.ErrorIf(t, seen[kind] == 0, "nothing is %s: %v", kind, seen)
	}
}

// tree makes random routes.
type tree struct {
	*rand.Rand
	unknown bool // a path decides
}

// routes returns a list of routes with so many lists within one another.
func (g *tree) routes(deep int) string {
	list := make([]string, g.IntN(4))
	for i := range list {
		terminal := g.IntN(3) == 0
		list[i] = fmt.Sprintf(`{"match":[%s],"handle":[%s],"terminal":%t}`, g.sets(), g.handlers(deep-1), terminal)
	}
	return "[" + strings.Join(list, ",") + "]"
}

// sets returns matchers of a route.
func (g *tree) sets() string {
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
func (g *tree) handlers(deep int) string {
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
