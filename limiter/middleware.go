package limiter

import (
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/answer"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Middleware returns what puts limits before a handler: each request takes a unit of the policy from the client that the
// function names, such as [ClientAddress]. A denied request gets 429 with Retry-After, one that the store cannot decide
// 503, and every response the RateLimit and X-RateLimit header fields. A request runs until the handler returns where the
// policy has a MaxConcurrent and the store has EndRunning; it is held for as long as its Result.Delay says.
func Middleware(store Store, policy *Policy, key func(*http.Request) string) func(next http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			checks := []Check{{Policy: policy, Key: EncodeKey(key(r))}}
			_, err := store.Decide(r.Context(), checks)
			if running, ok := store.(interface{ EndRunning([]Check) }); ok {
				defer running.EndRunning(checks)
			}
			if err != nil { // the store cannot decide, or the client has left
				answer.SetRefusal(w.Header(), r.Header, time.Second, 0, nil)
				http.Error(w, "rate limits are unavailable", http.StatusServiceUnavailable)
				return
			}
			var quotas answer.Quotas
			quotas.Record([]limiter.Check{checks[0].internal()}, answer.XRateLimit|answer.IETF, time.Now())
			quotas.SetHeaders(w.Header(), r.Header, nil, nil)
			if result := checks[0].Result; !result.Passes() {
				answer.SetRefusal(w.Header(), r.Header, result.RetryAfter, 0, nil)
				http.Error(w, "too many requests", http.StatusTooManyRequests)
				return
			} else if result.Delay > 0 {
				turn := time.NewTimer(result.Delay)
				defer turn.Stop()
				select {
				case <-turn.C:
				case <-r.Context().Done():
					return
				}
			}
			next.ServeHTTP(w, r)
		})
	}
}

// ClientAddress returns the address of a request's client by its connection, of an IPv6 client the /64 network: one
// client has 2^64 addresses. Behind a proxy that is the proxy's: take the client from what the proxy writes.
func ClientAddress(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	address = address.Unmap().WithZone("")
	if address.Is4() {
		return address.String()
	}
	network, _ := address.Prefix(64) // at most 128 bits: no error
	return network.String()
}
