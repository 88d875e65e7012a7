package redisratelimit

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

// BenchmarkPage answers viewers of a node with 2,000 policies, each of which has denied and met 200 keys: the first question, one
// after which nothing but the store's time has changed, and one before which each policy has met requests. The points of
// ten minutes are measured by BenchmarkFeed.
func BenchmarkPage(b *testing.B) {
	handler := strings.TrimPrefix(manyPolicies(2000, ""), "{")
	loadServer(b, `,"redis_ratelimit":{"redis":{"url":"redis://`+redistest.Start(b).Addr+`"}}`, `{"handler":"redis_ratelimit",`+handler+",")
	app := apps.newest()
	meet := func() {
		for _, p := range app.registered {
			for _, o := range storepool.Outcomes[:4] {
				p.Counters.Count(o, limiter.SourceRedis)
			}
		}
	}
	for _, p := range app.registered {
		for i := range 200 {
			key := fmt.Sprintf("203.0.113.%d", i)
			p.Counters.Top.Add(key, time.Now())
			p.Counters.Used.Add(limiter.EncodeKey(key), 1, rand.Uint64())
		}
	}
	serve := func(w http.ResponseWriter, r *http.Request) error {
		routes := adminRoutes{}.Routes()
		return routes[slices.IndexFunc(routes, func(e caddy.AdminRoute) bool { return e.Pattern == r.URL.Path })].Handler.ServeHTTP(w, r)
	}
	b.Run("used", func(b *testing.B) { // as the page has it looked up in the background, each ten seconds
		for b.Loop() {
			assert.Must(b, serve(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/redis_ratelimit/top?by=used", nil)))
		}
	})
	size := 0
	ask := func(since string) (next string) {
		w := httptest.NewRecorder()
		assert.Must(b, serve(w, httptest.NewRequest(http.MethodGet, "/redis_ratelimit/page?since="+since, nil)))
		var answer struct{ Next string }
		size = w.Body.Len()
		b.StopTimer()
		assert.Must(b, json.Unmarshal(w.Body.Bytes(), &answer))
		b.StartTimer()
		return answer.Next
	}
	for _, bench := range []struct {
		name     string
		forgets  bool
		requests bool
	}{{"first", true, false}, {"unchanged", false, false}, {"changed", false, true}} {
		b.Run(bench.name, func(b *testing.B) {
			next := ask("")
			b.ReportAllocs()
			for b.Loop() {
				if bench.requests {
					b.StopTimer()
					meet()
					b.StartTimer()
				}
				if bench.forgets {
					next = ""
				}
				next = ask(next)
			}
			b.ReportMetric(float64(size), "bytes")
		})
	}
	assert.ErrorIf(b, app.registered["many0"].Counters.Counts().Decisions[limiter.OutcomeDenied] == 0, "no requests")
}
