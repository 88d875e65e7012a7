package rule

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// forwardedRequest is a request whose client's address is that of its connection.
func forwardedRequest(remote, client, forwarded string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = remote
	r.Header.Set("X-Forwarded-For", forwarded)
	vars := map[string]any{caddyhttp.ClientIPVarKey: client}
	return r.WithContext(context.WithValue(r.Context(), caddyhttp.VarsCtxKey, vars))
}

func TestForwardedWatch_connections(t *testing.T) {
	for _, test := range []struct {
		remote, client, forwarded string
		want                      bool
	}{
		{"10.0.0.1:80", "10.0.0.1", "203.0.113.9", true},
		{"198.51.100.7:80", "198.51.100.7", "203.0.113.9", true}, // a CDN
		{"198.51.100.7:80", "198.51.100.7", "198.51.100.7", false},
		{"[::ffff:198.51.100.7]:80", "198.51.100.7", "::ffff:198.51.100.7", false},
		{"[fe80::1%eth0]:80", "fe80::1%eth0", "2a00:1450::1", true},
		{"10.0.0.1:80", "203.0.113.9", "203.0.113.9", false}, // believed
		{"@", "", "203.0.113.9", false},
		{"10.0.0.1:80", "", "203.0.113.9", false},
	} {
		got := isUnbelieved(forwardedRequest(test.remote, test.client, test.forwarded))
		assert.ErrorIf(t, got != test.want, "%+v: got %v", test, got)
	}
}

// TestForwardedWatch_concurrent has many requests at once, of which one reports.
func TestForwardedWatch_concurrent(t *testing.T) {
	var reports atomic.Int32
	watch := ForwardedWatch{OnUnbelieved: func() { reports.Add(1) }}
	r := forwardedRequest("10.0.0.1:80", "10.0.0.1", "203.0.113.9")
	var requests sync.WaitGroup
	for range 8 {
		requests.Go(func() {
			for range 1000 {
				watch.Look(r)
			}
		})
	}
	requests.Wait()
	assert.ErrorIf(t, reports.Load() != 1, "%d reports, want one", reports.Load())
}
