package limiter_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/failover"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
)

func newPolicy(t *testing.T, s limiter.Settings) *limiter.Policy {
	t.Helper()
	policy, err := limiter.NewPolicy(s)
	assert.Must(t, err)
	return policy
}

// get has a handler answer a request of a client.
func get(ctx context.Context, handler http.Handler, address string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	r.RemoteAddr = address
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

var empty = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

// TestMiddleware_headers asks as one client and as another one of the same IPv6 network.
func TestMiddleware_headers(t *testing.T) {
	t.Parallel()
	store := memory.NewOnClock(func() int64 { return 1_790_000_000_000_000 })
	policy := newPolicy(t, limiter.Settings{Name: "web", Algorithm: limiter.TokenBucket, Limit: 2, Window: time.Minute})
	handler := limiter.Middleware(store, policy, limiter.ClientAddress)(empty)
	for i, want := range []struct {
		status               int
		remaining, retry, rl string
	}{
		{200, "1", "", `"web";r=1;t=30`}, {200, "0", "", `"web";r=0;t=30`}, {429, "0", "30", `"web";r=0;t=30`},
	} {
		w := get(t.Context(), handler, "[2001:db8::"+string(rune('1'+i))+"]:5000")
		assert.Equal(t, w.Code, want.status, "status")
		assert.Equal(t, w.Header().Get("X-RateLimit-Remaining"), want.remaining, "remaining")
		assert.Equal(t, w.Header().Get("Retry-After"), want.retry, "Retry-After")
		assert.Equal(t, w.Header().Get("RateLimit"), want.rl, "RateLimit")
	}
	assert.Equal(t, get(t.Context(), handler, "[2001:db8:0:1::1]:5000").Code, 200, "another network")
}

// undecided is a store that cannot decide.
type undecided struct{}

func (undecided) Decide(context.Context, []limiter.Check) (limiter.Source, error) {
	return "redis", limiter.ErrUndecided
}

func TestMiddleware_undecided(t *testing.T) {
	t.Parallel()
	policy := newPolicy(t, limiter.Settings{Name: "web", Limit: 2, Window: time.Minute})
	handler := limiter.Middleware(undecided{}, policy, limiter.ClientAddress)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the handler ran")
	}))
	w := get(t.Context(), handler, "192.0.2.7:5000")
	assert.Equal(t, w.Code, 503, "status")
	assert.Equal(t, w.Header().Get("Retry-After"), "1", "Retry-After")
}

// TestMiddleware_running ends each request with its handler, by every store that has EndRunning.
func TestMiddleware_running(t *testing.T) {
	t.Parallel()
	policy := newPolicy(t, limiter.Settings{Name: "slots", MaxConcurrent: 1})
	for _, store := range []limiter.Store{memory.New(), failover.New(nil, memory.New(), failover.Options{})} {
		var inner http.Handler
		status := 0
		handler := limiter.Middleware(store, policy, limiter.ClientAddress)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if status == 0 {
				status = get(r.Context(), inner, "192.0.2.7:5001").Code
			}
		}))
		inner = handler
		assert.Equal(t, get(t.Context(), handler, "192.0.2.7:5000").Code, 200, "the first")
		assert.Equal(t, status, 429, "one within it")
		assert.Equal(t, get(t.Context(), handler, "192.0.2.7:5000").Code, 200, "one after it")
	}
}

// TestMiddleware_delay holds a request for its turn, and lets go of one whose client has left.
func TestMiddleware_delay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		store := memory.NewOnClock(func() int64 { return 1_790_000_000_000_000 + time.Since(start).Microseconds() })
		wait := 10 * time.Second
		policy := newPolicy(t, limiter.Settings{Name: "queue", Algorithm: limiter.LeakyBucket, Limit: 1, Burst: 3, Window: time.Second, MaxDelay: &wait})
		served := 0
		handler := limiter.Middleware(store, policy, limiter.ClientAddress)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
		get(t.Context(), handler, "192.0.2.7:5000")
		get(t.Context(), handler, "192.0.2.7:5000")
		assert.Equal(t, time.Since(start), time.Second, "the second request's turn")
		ctx, leave := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer leave()
		get(ctx, handler, "192.0.2.7:5000")
		assert.Equal(t, time.Since(start), 1200*time.Millisecond, "the client left")
		assert.Equal(t, served, 2, "requests served")
	})
}

func TestClientAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"192.0.2.7:5000": "192.0.2.7", "[::ffff:192.0.2.7]:5000": "192.0.2.7", "[2001:db8::7%eth0]:80": "2001:db8::/64", "@": "@", "": "",
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = address
		assert.Equal(t, limiter.ClientAddress(r), want, "of %q", address)
	}
}
