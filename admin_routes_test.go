package redisratelimit

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// TestAdminRoutes_are_listed compares what is served with the list of endpoints, and the methods that are taken.
func TestAdminRoutes_are_listed(t *testing.T) {
	served := adminRoutes{}.Routes()
	var got, want []string
	for _, r := range adminapi.Routes() {
		want = append(want, r.Method+" "+r.Path())
	}
	for _, r := range served {
		w := httptest.NewRecorder()
		err := r.Handler.ServeHTTP(w, httptest.NewRequest(http.MethodOptions, r.Pattern, nil))
		assert.ErrorIf(t, err == nil, "%s takes OPTIONS", r.Pattern)
		got = append(got, w.Header().Get("Allow")+" "+r.Pattern)
	}
	slices.Sort(got)
	slices.Sort(want)
	assert.Equal(t, len(got), len(want), "the number of endpoints")
	assert.ErrorIf(t, !slices.Equal(got, want), "served are %v, listed %v", got, want)
}
