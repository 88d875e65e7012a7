//go:build !race

package redisratelimit

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// TestRequest_memory bounds the memory that a request in process takes above plain Caddy, as half of what a request costs is
// the collector's work. 48 bytes and one allocation are Caddy's own for each handler. A denial spares what Caddy's answer takes,
// 32 bytes in two allocations. Under the race detector exchanges
// are not used again.
func TestRequest_memory(t *testing.T) {
	handler := func(limit, options string) string {
		return `{"handler":"redis_ratelimit","policies":[{"name":"measured","limit":` + limit + `,"window":"1h"}]` + options + `},`
	}
	const many, off = "1000000000", `,"headers":["off"]`
	plainBytes, plainPieces := memoryOfRequest(t, "", "")
	for _, test := range []struct {
		name, handler string
		bytes, pieces float64
	}{
		{"without headers", handler(many, off), 128, 2},
		{"with headers", handler(many, ""), 320, 3},
		{"denied without headers", handler("1", off), 416, 1},
		{"denied with headers", handler("1", ""), 416, 1},
	} {
		bytes, pieces := memoryOfRequest(t, "", test.handler)
		bytes, pieces = bytes-plainBytes, pieces-plainPieces
		assert.ErrorIf(t, bytes > test.bytes+1 || pieces > test.pieces+0.05, "%s: a request takes %.1f bytes in %.2f allocations, at most %v in %v",
			test.name, bytes, pieces, test.bytes, test.pieces)
	}
}

// TestRequest_memory_crawlers holds what a browser's request takes more where crawlers are known: nothing where nothing asks for
// them, and where a policy does, one allocation more than another placeholder in that place.
func TestRequest_memory_crawlers(t *testing.T) {
	handler := func(policy, options string) string {
		return `{"handler":"redis_ratelimit","policies":[{"name":"measured","limit":1000000000,"window":"1h"` + policy +
			`}],"headers":["off"]` + options + `},`
	}
	match := func(placeholder, value string) string {
		return `,"match":[{"vars":{"{` + placeholder + `}":["` + value + `"]}}]`
	}
	plain, method := handler("", ""), handler(match("http.request.method", "GET"), "")
	for _, test := range []struct {
		name, handler, beside string
		bytes, pieces         float64
	}{
		{"nothing asks", plain, plain, 0, 0},
		{"exempt", handler("", `,"exempt_crawlers":["google"]`), plain, 0, 0},
		{"match", handler(match("http.redis_ratelimit.crawler", ""), ""), method, 64, 1},
	} {
		bytes, pieces := memoryOfRequest(t, benchCrawlers, test.handler)
		besideBytes, besidePieces := memoryOfRequest(t, "", test.beside)
		bytes, pieces = bytes-besideBytes, pieces-besidePieces
		t.Logf("%s: %.1f bytes in %.2f allocations more", test.name, bytes, pieces)
		assert.ErrorIf(t, bytes > test.bytes+1 || pieces > test.pieces+0.05, "%s: a request takes %.1f bytes in %.2f allocations more, at most %v in %v",
			test.name, bytes, pieces, test.bytes, test.pieces)
	}
}

// memoryOfRequest returns the bytes and the allocations of a request to a Caddy with a handler, on average.
func memoryOfRequest(t *testing.T, app, handler string) (bytes, pieces float64) {
	t.Helper()
	const warm, measured = 100, 10_000
	server := loadServer(t, app, handler)
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection empties pools
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/", nil)
	r.Header.Set("User-Agent", "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36")
	w := &sink{header: http.Header{}}
	var before, after runtime.MemStats
	for i := range warm + measured {
		if i == warm {
			runtime.ReadMemStats(&before)
		}
		clear(w.header)
		ctx, end := context.WithCancel(t.Context())
		server.ServeHTTP(w, r.WithContext(ctx))
		end()
	}
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc-before.TotalAlloc) / measured, float64(after.Mallocs-before.Mallocs) / measured
}
