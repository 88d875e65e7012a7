package redisratelimit

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// checkLeft asks a handler and checks what is left.
func checkLeft(t *testing.T, h http.Handler, want string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if got := w.Header().Get("X-Ratelimit-Remaining"); got != want {
		t.Errorf("%q is left, want %s", got, want)
	}
}

// TestProcess_with_two_apps has both serve at once, as tests of other modules do. They count together by name and need
// not agree about its limit.
func TestProcess_with_two_apps(t *testing.T) {
	var servers [2]http.Handler
	var ends [2]func()
	var started [2]*App
	for i, limit := range []string{"5", "6"} {
		ctx, end := newContext(t, "")
		h := loadHandler(t, ctx, policyJSON("p", limit))
		if err := h.app.Start(); err != nil {
			t.Fatal(err)
		}
		hello := func(http.ResponseWriter, *http.Request) error { return nil }
		servers[i], ends[i], started[i] = serve(t, hello, h).Config.Handler, end, h.app
	}
	checkLeft(t, servers[0], "4")
	checkLeft(t, servers[1], "4")
	ends[1]()
	if apps.newest() != started[0] {
		t.Error("the app that goes on is not asked")
	}
	checkLeft(t, servers[0], "2")
	ends[0]()
	checkReferences(t, 0, 0)
}

// TestProcess_that_loads_one_after_another counts on until Caddy stops. What loads afterwards counts anew.
func TestProcess_that_loads_one_after_another(t *testing.T) {
	const handler = `{"handler":"redis_ratelimit","policies":[{"name":"p","limit":5,"window":"24h"}]},`
	load := func() *caddyhttp.Server { return loadServer(t, "", handler) }
	checkLeft(t, load(), "4")
	checkLeft(t, load(), "3")
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	checkReferences(t, 0, 0)
	checkLeft(t, load(), "4")
}
