package redisratelimit

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// BenchmarkEnforce compares a request of a policy that is enforced for all keys, for a key within the part and
// for one outside of it, and of a policy in dry run; with notify, which has no listener.
func BenchmarkEnforce(b *testing.B) {
	for _, bench := range []struct{ name, options string }{
		{"all", ""}, {"within", `,"enforce":99.9999`}, {"outside", `,"enforce":0`}, {"dry_run", `,"dry_run":true`}, {"notify", `,"notify":[80]`},
	} {
		b.Run(bench.name, func(b *testing.B) {
			h := newHandler(b, `{"policies":[{"name":"rolled","key":"same","limit":1000000000,"window":"1m","algorithm":"gcra"`+bench.options+`}]}`)
			b.ReportAllocs()
			for b.Loop() {
				passThrough(b, h)
			}
		})
	}
}

// BenchmarkUsage compares a flood of looks with the requests themselves, of one client, in process and on
// Redis.
func BenchmarkUsage(b *testing.B) {
	stores := map[string]string{"memory": "{}", "redis": `{"redis":{"url":"redis://` + redistest.Start(b).Addr + `"},"timeout":"5s"}`}
	for _, store := range []string{"memory", "redis"} {
		ctx := lastingContext(b, stores[store])
		h := loadHandler(b, ctx, `{"policies":[{"name":"looked","key":"same","limit":1000000000,"window":"1m","algorithm":"gcra"}],"usage":"/usage"}`)
		for _, path := range []string{"/", "/usage"} {
			b.Run(store+path, func(b *testing.B) {
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						serveOnce(b, h, path)
					}
				})
			})
		}
	}
}

// serveOnce sends a request of a path through a handler.
func serveOnce(tb testing.TB, h *Handler, path string) {
	tb.Helper()
	next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusOK)
		return nil
	})
	w := httptest.NewRecorder()
	r := caddyhttp.PrepareRequest(httptest.NewRequest(http.MethodGet, path, nil), caddy.NewReplacer(), w, &caddyhttp.Server{})
	if err := h.ServeHTTP(w, r, next); err != nil || w.Code != http.StatusOK {
		tb.Fatal(w.Code, err)
	}
}
