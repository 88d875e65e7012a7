package routetrace

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// noteHeader is a handler that notes the header of a request.
type noteHeader struct{ seen http.Header }

func (*noteHeader) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.test_note_header", New: func() caddy.Module { return noting }}
}

func (n *noteHeader) ServeHTTP(_ http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	n.seen = r.Header.Clone()
	return nil
}

// noting is the one handler of the test.
var noting = new(noteHeader)

// TestHeaderFilter sends headers to servers of Caddy: what comes to their routes is what the filter keeps.
func TestHeaderFilter(t *testing.T) {
	caddy.RegisterModule(noting)
	for name, test := range map[string]struct{ underscore, dot string }{
		"expecting none": {"", ""}, "a name": {"x_api_key", ""}, "names with a prefix": {"webhook_*", ""}, "dots": {"", "x.api.key"},
		"both": {"X_Api_Key", "Webhook.*"}, "a name with both": {"a_b.c", ""},
	} {
		t.Run(name, func(t *testing.T) {
			server := provisioned(t, test.underscore, test.dot)
			filter := NewHeaderFilter(server)
			header := http.Header{"X-Api-Key": {"a", "b"}}
			for _, name := range []string{
				"X_Api_Key", "X.Api.Key", "Accept", "Webhook_Id", "Webhook.Id", "Webhook-Id", "Webhook", "A_b.c", "A-B-C", "Webhook_a.b", "x_api",
			} {
				header.Add(name, "1")
			}
			for _, again := range []string{"", "X_Api_Key", "Webhook.Id", "Accept"} {
				sent := header.Clone()
				if again != "" {
					sent.Add(again, "2")
				}
				r := httptest.NewRequest(http.MethodGet, "/", nil)
				r.Header = sent.Clone()
				server.ServeHTTP(httptest.NewRecorder(), r)
				got, want := slices.Sorted(maps.Keys(filter.Filter(sent))), slices.Sorted(maps.Keys(noting.seen))
				assert.ErrorIf(t, !slices.Equal(got, want), "with %q twice: keeps %q, Caddy %q", again, got, want)
				assert.ErrorIf(t, len(sent) != len(header), "with %q twice: the header that was given lost fields", again)
			}
		})
	}
}

// provisioned returns a server of Caddy that notes headers.
func provisioned(t *testing.T, underscore, dot string) *caddyhttp.Server {
	t.Helper()
	server := map[string]any{"routes": []any{map[string]any{"handle": []any{map[string]any{"handler": "test_note_header"}}}}}
	if underscore != "" {
		server["expected_underscore_headers"] = []string{underscore}
	}
	if dot != "" {
		server["expected_dot_headers"] = []string{dot}
	}
	app := assert.NoError(json.Marshal(map[string]any{"servers": map[string]any{"srv0": server}}))(t)
	ctx := assert.NoError(caddy.ProvisionContext(&caddy.Config{AppsRaw: caddy.ModuleMap{"http": app}}))(t)
	web, ok := assert.NoError(ctx.App("http"))(t).(*caddyhttp.App)
	assert.FatalIf(t, !ok, "the app http is no app of Caddy's")
	return web.Servers["srv0"]
}
