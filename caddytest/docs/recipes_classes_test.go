package docs

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

func recipeUnlimited(t *testing.T, e recipeEnv) {
	for range 150 {
		if a := e.Get(t, "/", "X-Api-Key: key-of-acme"); a.Status != http.StatusOK || caddytest.HasQuota(a) {
			t.Fatalf("got %v; want no limit", a)
		}
	}
	caddytest.CheckQuota(t, e.Get(t, "/", "X-Api-Key: key-of-bolt"), 120, 119)
	for _, key := range []string{"key-of-late", "made-up", ""} {
		a := e.Get(t, "/", "X-Api-Key: "+key)
		if a.Status != http.StatusTooManyRequests || a.Header.Get("Retry-After") != "" || a.Header.Get("X-Ratelimit-Limit") != "0" || a.Header.Get("X-Ratelimit-Remaining") != "0" {
			t.Errorf("key %q: got %v; want it refused for good", key, a)
		}
	}
}

// recipeShed fills the backend by exports, then by browsing, then by checkouts. Units are refilled meanwhile,
// so that more pass. Each look at what remains takes a unit.
func recipeShed(t *testing.T, e recipeEnv) {
	for _, class := range []struct {
		path, reason string
		atLeast      int
	}{{"/export/1", "reserve", 25}, {"/", "reserve", 14}, {"/checkout/1", "limit", 9}} {
		passed := 0
		a := caddytest.Response{Status: http.StatusOK}
		for a.Status == http.StatusOK && passed < 5000 { // several at once, to be faster than the refill
			for _, answer := range e.crowd(t, class.path, 5) {
				if answer.Status == http.StatusOK {
					passed++
				} else {
					a = answer
				}
			}
		}
		if passed < class.atLeast {
			t.Errorf("%s: %d requests passed, want at least %d", class.path, passed, class.atLeast)
		}
		caddytest.CheckRefusal(t, a, http.StatusTooManyRequests)
		if reason := a.Header.Get("X-Shed"); reason != class.reason {
			t.Errorf("%s: the reason is %q, want %q", class.path, reason, class.reason)
		}
		if class.reason != "reserve" {
			continue
		}
		left, err := strconv.Atoi(e.Get(t, "/checkout/1").Header.Get("X-Ratelimit-Remaining"))
		if err != nil || left < 9 {
			t.Errorf("%s is refused, and %d units remain for checkouts", class.path, left)
		}
	}
}
