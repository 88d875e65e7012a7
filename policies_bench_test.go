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
)

// manyPolicies is a handler of so many policies, all of which refund what a request takes.
func manyPolicies(n int, options string) string {
	policies := make([]string, n)
	for i := range policies {
		policies[i] = fmt.Sprintf(`{"name":"many%d","limit":1000000,"window":"1h","count_if":{"status_code":[401]}}`, i)
	}
	return `{"policies":[` + strings.Join(policies, ",") + `]` + options + `}`
}

// BenchmarkPolicies is the price of a request by how many policies it meets, in process: in proportion.
func BenchmarkPolicies(b *testing.B) {
	for _, n := range []int{1, 2, 8, 100, 1000} {
		b.Run(fmt.Sprintf("policies=%d", n), func(b *testing.B) {
			h := newHandler(b, manyPolicies(n, `,"headers":["x_ratelimit","ietf"]`))
			b.ReportAllocs()
			for b.Loop() {
				passThrough(b, h)
			}
		})
	}
}

// TestHandler_of_many_policies_takes_time_in_proportion compares a request of 2,000 policies, all of
// which refund, with one of 100. In proportion that is 20 times as long, which caches and a busy
// machine make more of; quadratic it was some 500 times.
func TestHandler_of_many_policies_takes_time_in_proportion(t *testing.T) {
	measure := func(n int) time.Duration {
		h := newHandler(t, manyPolicies(n, `,"headers":["x_ratelimit","ietf"]`))
		best := time.Hour
		for range 12 { // the best of them is the least disturbed
			began := time.Now()
			passThrough(t, h)
			best = min(best, time.Since(began))
		}
		return best
	}
	few, many := measure(100), measure(2000)
	t.Logf("100 policies: %v, 2,000 policies: %v", few, many)
	if many > 150*few {
		t.Errorf("2,000 policies take %v, 100 take %v", many, few)
	}
}

// requestWithVars is a request as Caddy hands it to handlers.
func requestWithVars() (*http.Request, *caddy.Replacer) {
	r, repl := httptest.NewRequest(http.MethodGet, "/", nil), caddy.NewReplacer()
	ctx := context.WithValue(r.Context(), caddy.ReplacerCtxKey, repl)
	return r.WithContext(context.WithValue(ctx, caddyhttp.VarsCtxKey, map[string]any{})), repl
}

// passThrough sends a request through a handler.
func passThrough(t testing.TB, h *Handler) {
	t.Helper()
	next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusOK)
		return nil
	})
	r, _ := requestWithVars()
	if err := h.ServeHTTP(httptest.NewRecorder(), r, next); err != nil {
		t.Fatal(err)
	}
}
