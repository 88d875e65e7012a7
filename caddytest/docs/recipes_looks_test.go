package docs

import (
	"net/http"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// This file tests the recipes of policies that some requests only look at.

// recipeTrap visits the site, has another site's page ask for the trap, and springs the trap: all that the client asks for then is
// refused, and none of others.
func recipeTrap(t *testing.T, e recipeEnv) {
	for range 30 {
		e.Get(t, "/").WantFree(t)
	}
	for range 3 {
		e.Get(t, "/.env", "Sec-Fetch-Site: cross-site").WantFree(t)
	}
	for _, a := range e.Crowd(t, 30, "") {
		assert.ErrorIf(t, a.Status != http.StatusOK, "a visitor got %v", a)
	}
	e.Get(t, "/.env;x").Want(t, http.StatusOK, caddytest.Any) // as some servers read /.env: the trap counts, and the backend answers
	for _, path := range []string{"/", "/shop", "/.env"} {
		a := e.Get(t, path)
		caddytest.CheckRefusal(t, a, http.StatusTooManyRequests)
		wait := retryAfter(t, a)
		assert.ErrorIf(t, wait < 86390 || wait > 86400, "%s: got %v; want the client banned for a day", path, a)
	}
	e.from("127.0.0.9").Get(t, "/").WantFree(t)
	e.from("127.0.0.9").Get(t, "/.env").Want(t, http.StatusNotFound, caddytest.Any)
	e.Ratelimit(t, "bans", "--policy", "trap").Want(t, 0, "127.0.0.1")
	e.Ratelimit(t, "policies").Want(t, 0, "2 counted", "looked")
}

// recipeSearches searches ten times: neither a search nor a checkout passes then, and all others do.
func recipeSearches(t *testing.T, e recipeEnv) {
	for range 20 {
		e.Get(t, "/checkout/cart").WantFree(t)
	}
	for range 10 {
		e.Get(t, "/search?q=shoes").Want(t, http.StatusOK, caddytest.Any)
	}
	for _, path := range []string{"/search?q=boots", "/checkout/cart", "/checkout/pay"} {
		caddytest.CheckRefusal(t, e.Get(t, path), http.StatusTooManyRequests)
	}
	e.Get(t, "/").WantFree(t)
}
