package routetrace

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// fetchedRanges stands for the module of a CDN's addresses.
type fetchedRanges struct{}

func (*fetchedRanges) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.ip_sources.cloudflare", New: func() caddy.Module { return new(fetchedRanges) }}
}

func (*fetchedRanges) GetIPRanges(*http.Request) []netip.Prefix { return nil }

// TestWarnings_appendingSource has a CDN that appends to what clients write, with options that have its first address count or
// not.
func TestWarnings_appendingSource(t *testing.T) {
	caddy.RegisterModule(new(fetchedRanges))
	const fetched = `"trusted_proxies":{"source":"cloudflare"}`
	for options, want := range map[string]int{
		fetched: 1,
		fetched + `,"client_ip_headers":["x-forwarded-for","CF-Connecting-IP"]`: 1,
		fetched + `,"client_ip_headers":["CF-Connecting-IP"]`:                   0,
		fetched + `,"trusted_proxies_strict":1`:                                 0,
		`"trusted_proxies":{"source":"static","ranges":["127.0.0.1"]}`:          0,
		`"listen":[":8080"]`: 0,
	} {
		for _, byClient := range []bool{true, false} {
			app := json.RawMessage(`{"servers":{"srv0":{"routes":[],` + options + `}}}`)
			ctx := assert.NoError(caddy.ProvisionContext(&caddy.Config{AppsRaw: caddy.ModuleMap{"http": app}}))(t)
			web, ok := assert.NoError(ctx.App("http"))(t).(*caddyhttp.App)
			assert.FatalIf(t, !ok, "the app http is no app of Caddy's")
			limit := &warnable{subject: Subject{ByClient: byClient}}
			web.Servers["srv0"].Routes = caddyhttp.RouteList{{Handlers: []caddyhttp.MiddlewareHandler{limit, limit}}}
			found := 0
			for _, w := range warningsOf(web.Servers) {
				if w.Text == appendingSource(web.Servers["srv0"]) {
					found++
				}
			}
			if !byClient {
				want = 0
			}
			assert.Equal(t, found, want, "warnings of %s, by the client's address: %v", options, byClient)
		}
	}
}
