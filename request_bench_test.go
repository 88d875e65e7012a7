package redisratelimit

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// BenchmarkRequest measures a whole request in Caddy's server, without a network: of Caddy without this
// module, which sets the same headers (bare) or none (plain), and with it.
func BenchmarkRequest(b *testing.B) {
	redis := `,"redis_ratelimit":{"redis":{"url":"redis://` + redistest.Start(b).Addr + `"},"timeout":"10s"}`
	handler := func(policy, options string) string {
		return `{"handler":"redis_ratelimit","policies":[{"name":"bench","window":"1h",` + policy + `}]` + options + `},`
	}
	const byIP, byHeader = `"limit":1000000000`, `"limit":1000000000,"key":"{http.request.header.X-Key}"`
	for _, bench := range []struct{ name, app, handler string }{
		{"bare", "", `{"handler":"headers","response":{"set":{"X-Ratelimit-Limit":["1000000000"],"X-Ratelimit-Remaining":["999"],"X-Ratelimit-Reset":["1700000000"]}}},`},
		{"plain", "", ""},
		{"memory/key=ip", "", handler(byIP, "")},
		{"memory/key=header", "", handler(byHeader, "")},
		{"memory/headers=off", "", handler(byIP, `,"headers":["off"]`)},
		{"memory/headers=ietf", "", handler(byIP, `,"headers":["ietf"]`)},
		{"memory/denied", "", handler(`"limit":1`, "")},
		{"redis/key=ip", redis, handler(byIP, "")},
		{"redis/denied", redis, handler(`"limit":1`, "")},
	} {
		b.Run(bench.name, func(b *testing.B) { benchmarkRequests(b, bench.app, bench.handler) })
	}
}

// benchmarkRequests measures requests to a Caddy with an app and a handler before its answer. Those that
// Redis decides come from 64 clients for each processor.
func benchmarkRequests(b *testing.B, app, handler string) {
	b.Helper()
	server := loadServer(b, app, handler)
	if app != "" {
		b.SetParallelism(64)
	}
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/", nil)
		r.Header.Set("X-Key", "203.0.113.77")
		w := &sink{header: http.Header{}}
		for pb.Next() {
			clear(w.header)
			ctx, end := context.WithCancel(context.Background()) // as net/http has for each request
			server.ServeHTTP(w, r.WithContext(ctx))
			end()
		}
	})
}

// sink is a response that goes nowhere.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header          { return s.header }
func (*sink) WriteHeader(int)                {}
func (*sink) Write(data []byte) (int, error) { return len(data), nil }

// loadServer runs a Caddy and returns its server.
func loadServer(tb testing.TB, app, handler string) *caddyhttp.Server {
	tb.Helper()
	config := fmt.Sprintf(`{"admin":{"disabled":true,"config":{"persist":false}},"logging":{"logs":{"default":{"level":"ERROR"}}},
		"apps":{"http":{"servers":{"bench":{"listen":["127.0.0.1:0"],"automatic_https":{"disable":true},
		"routes":[{"handle":[%s{"handler":"static_response","body":"hello"}]}]}}}%s}}`, handler, app)
	redistest.Must(tb, caddy.Load([]byte(config), true))
	tb.Cleanup(func() {
		err := caddy.Stop()
		redistest.ErrorIf(tb, err != nil, "%v", err)
	})
	module, err := caddy.ActiveContext().App("http")
	redistest.Must(tb, err)
	served, ok := module.(*caddyhttp.App)
	redistest.FatalIf(tb, !ok, "the app is a %T", module)
	return served.Servers["bench"]
}
