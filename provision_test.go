package redisratelimit

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// newContext is a configuration with this app, or none where it is empty, and what ends it.
func newContext(t testing.TB, app string) (ctx caddy.Context, end func()) {
	t.Helper()
	config := new(caddy.Config)
	base, err := caddy.ProvisionContext(config)
	redistest.Must(t, err)
	if app != "" { // loaded at its first use, so that this context cleans it up
		config.AppsRaw = caddy.ModuleMap{appName: json.RawMessage(app)}
	}
	return caddy.NewContext(base)
}

// lastingContext is a [newContext] that ends with the test.
func lastingContext(t testing.TB, app string) caddy.Context {
	t.Helper()
	ctx, end := newContext(t, app)
	t.Cleanup(end)
	return ctx
}

// newHandler provisions a handler, which is cleaned up with the test.
func newHandler(t testing.TB, handler string) *Handler {
	t.Helper()
	return loadHandler(t, lastingContext(t, ""), handler)
}

func loadHandler(t testing.TB, ctx caddy.Context, handler string) *Handler {
	t.Helper()
	module, err := ctx.LoadModuleByID("http.handlers.redis_ratelimit", json.RawMessage(handler))
	redistest.Must(t, err)
	h, ok := module.(*Handler)
	redistest.FatalIf(t, !ok, "the module is a %T", module)
	return h
}

// refused reads a file of testdata: a configuration a line, and behind a tab what its error says.
func refused(t testing.TB, file string) map[string]string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	redistest.Must(t, err)
	errorOf := map[string]string{}
	for line := range strings.Lines(string(text)) {
		configuration, says, found := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		redistest.FatalIf(t, !found || says == "" || errorOf[configuration] != "", "%s has the line %q", file, line)
		errorOf[configuration] = says
	}
	return errorOf
}

// policyJSON is a handler of one policy that no test waits for.
func policyJSON(name, limit string) string {
	return `{"policies":[{"name":"` + name + `","limit":` + limit + `,"window":"24h"}]}`
}

// serve runs handlers one around the other, the last one inside, on a real server, which answers
// errors the way that Caddy does without error routes.
func serve(t testing.TB, inside caddyhttp.HandlerFunc, handlers ...*Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, &caddyhttp.Server{})
		if err := chain(handlers, inside).ServeHTTP(w, r); err != nil {
			status := http.StatusInternalServerError
			if coded := (caddyhttp.HandlerError{}); errors.As(err, &coded) && coded.StatusCode != 0 {
				status = coded.StatusCode
			}
			w.WriteHeader(status)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// chain makes one handler of many.
func chain(handlers []*Handler, inside caddyhttp.Handler) caddyhttp.Handler {
	for i := len(handlers) - 1; i >= 0; i-- {
		h, next := handlers[i], inside
		inside = caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error { return h.ServeHTTP(w, r, next) })
	}
	return inside
}
