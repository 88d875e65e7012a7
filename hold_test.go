package redisratelimit

import (
	"net/http"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
)

// TestHold_refuses_where_too_many_wait shows the share nevertheless, which was charged.
func TestHold_refuses_where_too_many_wait(t *testing.T) {
	server := serve(t, hello, newHandler(t, `{"policies":[{"name":"p","key":"x","limit":5,"window":"48h","algorithm":"leaky_bucket","max_delay":"24h"}]}`))
	checkShare(t, fetch(t, server.URL).Header, "5", "4")
	process.Held.Add(gate.MaxHeld)
	defer process.Held.Add(-gate.MaxHeld)
	response := fetch(t, server.URL)
	if response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("the status is %d, want 503", response.StatusCode)
	}
	checkShare(t, response.Header, "5", "3")
}
