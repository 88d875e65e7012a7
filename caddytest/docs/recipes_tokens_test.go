package docs

import (
	"errors"
	"net/http"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

func recipeTokens(t *testing.T, e recipeEnv) {
	const acme, bolt = "Authorization: Bearer acme", "Authorization: Bearer bolt"
	for _, left := range []int{6000, 2000} {
		if a := e.Get(t, "/v1/chat", acme); a.Status != http.StatusOK {
			t.Fatalf("got %v; want it answered", a)
		}
		e.waitForTokens(t, acme, left)
	}
	if a := e.Get(t, "/v1/chat", acme); a.Status != http.StatusOK {
		t.Fatalf("got %v; want it answered, into debt", a)
	}
	redistest.WaitFor(t, "the debt counts", func() error {
		a := e.Get(t, "/v1/free", acme)
		if a.Status == http.StatusOK {
			return errors.New("more is answered")
		}
		if caddytest.CheckRefusal(t, a, http.StatusTooManyRequests); retryAfter(t, a) < 600 || retryAfter(t, a) > 900 {
			t.Errorf("got %v; want to wait for 12 minutes", a)
		}
		return nil
	})
	caddytest.CheckQuota(t, e.Get(t, "/v1/silent", bolt), 10000, 9999)
	e.waitForTokens(t, bolt, 9500) // the fallback
	if a := e.Get(t, "/v1/chat"); a.Status != http.StatusBadRequest {
		t.Errorf("got %v; want requests without a customer refused", a)
	}
}

// waitForTokens waits until a customer has at most so many tokens left. The requests of the wait, which
// cost one each, are added back.
func (e recipeEnv) waitForTokens(t *testing.T, customer string, most int) {
	t.Helper()
	looks := 0
	redistest.WaitFor(t, "the tokens are charged", func() error {
		a := e.Get(t, "/v1/free", customer)
		looks++
		left := remaining(t, a, 10000) + looks
		if left < most-10 {
			t.Fatalf("got %v; want about %d left", a, most)
		}
		if left > most+10 { // three a second are refilled
			return errors.New("the tokens are not charged yet")
		}
		return nil
	})
}
