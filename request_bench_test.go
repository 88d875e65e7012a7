package redisratelimit

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// benchCrawlers is an app that knows crawlers.
const benchCrawlers = `,"redis_ratelimit":{"crawlers":{"resolver":"127.0.0.1:1","known":[
	{"name":"google","agents":["Googlebot","GoogleOther","Storebot-Google"],"names":[".googlebot.com"]},
	{"name":"bing","agents":["bingbot","BingPreview"],"names":[".search.msn.com"]}]}}`

// BenchmarkRequest measures a whole request in Caddy's server, without a network: of Caddy without this
// module, which sets the same headers (bare) or none (plain), or answers as to a denial (refused), and with it.
func BenchmarkRequest(b *testing.B) {
	redis := `,"redis_ratelimit":{"redis":{"url":"redis://` + redistest.Start(b).Addr + `"},"timeout":"10s"}`
	handler := func(policy, options string) string {
		return `{"handler":"redis_ratelimit","policies":[{"name":"bench","window":"1h",` + policy + `}]` + options + `},`
	}
	const running = `{"handler":"redis_ratelimit","policies":[{"name":"bench","key":"k","max_concurrent":1000000}]},`
	const refused = `{"handler":"headers","response":{"set":{"Cache-Control":["no-store"],"Content-Type":["text/plain; charset=utf-8"],` +
		`"Retry-After":["2700"],"Vary":["*"],"X-Content-Type-Options":["nosniff"],"X-Ratelimit-Limit":["1"],"X-Ratelimit-Remaining":["0"],` +
		`"X-Ratelimit-Reset":["1700000000"]}}},{"handler":"static_response","status_code":429,"body":"Too many requests. Try again in 45 minutes."},`
	const byIP, byHeader = `"limit":1000000000`, `"limit":1000000000,"key":"{http.request.header.X-Key}"`
	for _, bench := range []struct{ name, app, handler string }{
		{"bare", "", `{"handler":"headers","response":{"set":{"X-Ratelimit-Limit":["1000000000"],"X-Ratelimit-Remaining":["999"],"X-Ratelimit-Reset":["1700000000"]}}},`},
		{"plain", "", ""},
		{"refused", "", refused},
		{"memory/key=ip", "", handler(byIP, "")},
		{"memory/challenge", "", handler(byIP+`,"challenge":{}`, "")},
		{"memory/key=header", "", handler(byHeader, "")},
		{"memory/headers=off", "", handler(byIP, `,"headers":["off"]`)},
		{"memory/headers=ietf", "", handler(byIP, `,"headers":["ietf"]`)},
		{"memory/denied", "", handler(`"limit":1`, "")},
		{"redis/key=ip", redis, handler(byIP, "")},
		{"redis/denied", redis, handler(`"limit":1`, "")},
		{"memory/match=method", "", handler(byIP+`,"match":[{"vars":{"{http.request.method}":["GET"]}}]`, `,"headers":["off"]`)},
		{"memory/crawlers=unasked", benchCrawlers, handler(byIP, `,"headers":["off"]`)},
		{"memory/crawlers=exempt", benchCrawlers, handler(byIP, `,"headers":["off"],"exempt_crawlers":["google"]`)},
		{"memory/crawlers=match", benchCrawlers, handler(byIP+`,"match":[{"vars":{"{http.redis_ratelimit.crawler}":[""]}}]`, `,"headers":["off"]`)},
		{"memory/cost=placeholder", "", handler(byIP+`,"cost_from":"{http.request.remote.port}"`, `,"headers":["off"]`)},
		{"memory/cost=backend_time", "", handler(byIP+`,"cost_from":"backend_time"`, `,"headers":["off"]`)},
		{"memory/running", "", running},
		{"redis/running", redis, running},
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
		r.Header.Set("User-Agent", "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36")
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

func (s *sink) Header() http.Header            { return s.header }
func (*sink) WriteHeader(int)                  {}
func (*sink) Write(data []byte) (int, error)   { return len(data), nil }
func (*sink) SetWriteDeadline(time.Time) error { return nil }
func (*sink) SetReadDeadline(time.Time) error  { return nil }

// loadServer runs a Caddy and returns its server.
func loadServer(tb testing.TB, app, handler string) *caddyhttp.Server {
	tb.Helper()
	config := fmt.Sprintf(`{"admin":{"disabled":true,"config":{"persist":false}},"logging":{"logs":{"default":{"level":"ERROR"}}},
		"apps":{"http":{"servers":{"bench":{"listen":["127.0.0.1:0"],"automatic_https":{"disable":true},
		"routes":[{"handle":[%s{"handler":"static_response","body":"hello"}]}]}}}%s}}`, handler, app)
	assert.Must(tb, caddy.Load([]byte(config), true))
	tb.Cleanup(func() {
		err := caddy.Stop()
		assert.ErrorIf(tb, err != nil, "%v", err)
	})
	module := assert.NoError(caddy.ActiveContext().App("http"))(tb)
	served, ok := module.(*caddyhttp.App)
	assert.FatalIf(tb, !ok, "the app is a %T", module)
	return served.Servers["bench"]
}

// manyPolicies is a handler of so many policies, all of which refund what a request takes.
func manyPolicies(n int, options string) string {
	policies := make([]string, n)
	for i := range policies {
		policies[i] = fmt.Sprintf(`{"name":"many%d","limit":1000000,"window":"1h","count_if":{"status_code":[401]}}`, i)
	}
	return `{"policies":[` + strings.Join(policies, ",") + `]` + options + `}`
}

// BenchmarkPolicies is the price of a request by how many policies it meets, in process. Policies are
// searched one by one, as a handler has few of them.
func BenchmarkPolicies(b *testing.B) {
	for _, n := range []int{1, 2, 8, 16, 100} {
		b.Run(fmt.Sprintf("policies=%d", n), func(b *testing.B) {
			h := newHandler(b, manyPolicies(n, `,"headers":["x_ratelimit","ietf"]`))
			b.ReportAllocs()
			for b.Loop() {
				serveOnce(b, h, "/")
			}
		})
	}
}

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
				serveOnce(b, h, "/")
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
	err := h.ServeHTTP(w, r, next)
	assert.FatalIf(tb, err != nil || w.Code != http.StatusOK, "%v %v", w.Code, err)
}
