package redisratelimit

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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

// BenchmarkPolicies is the price of a request by how many policies it meets, in process: in proportion, also for
// 2,000 policies.
func BenchmarkPolicies(b *testing.B) {
	for _, n := range []int{1, 2, 8, 100, 1000, 2000} {
		b.Run(fmt.Sprintf("policies=%d", n), func(b *testing.B) {
			h := newHandler(b, manyPolicies(n, `,"headers":["x_ratelimit","ietf"]`))
			b.ReportAllocs()
			for b.Loop() {
				passThrough(b, h)
			}
		})
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
