package caddytest

import (
	"errors"
	"net/http"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

func playTokens(t *testing.T, k kitchen) {
	const acme, bolt = "Authorization: Bearer acme", "Authorization: Bearer bolt"
	for _, left := range []int{6000, 2000} {
		if a := k.get(t, "/v1/chat", acme); a.status != http.StatusOK {
			t.Fatalf("got %v; want it answered", a)
		}
		k.waitForTokens(t, acme, left)
	}
	if a := k.get(t, "/v1/chat", acme); a.status != http.StatusOK {
		t.Fatalf("got %v; want an answer that goes into debt", a)
	}
	redistest.WaitFor(t, "the debt counts", func() error {
		a := k.get(t, "/v1/free", acme)
		if a.status == http.StatusOK {
			return errors.New("more is answered")
		}
		if checkRefusal(t, a, http.StatusTooManyRequests); retryAfter(t, a) < 600 || retryAfter(t, a) > 900 {
			t.Errorf("got %v; want to wait for 12 minutes", a)
		}
		return nil
	})
	checkShare(t, k.get(t, "/v1/silent", bolt), 10000, 9999)
	k.waitForTokens(t, bolt, 9500) // by the fallback
	if a := k.get(t, "/v1/chat"); a.status != http.StatusBadRequest {
		t.Errorf("got %v; want nobody without a name", a)
	}
}

// waitForTokens waits until a customer has no more than so many tokens left, not counting the
// requests that look, which cost one each.
func (k kitchen) waitForTokens(t *testing.T, customer string, most int) {
	t.Helper()
	looks := 0
	redistest.WaitFor(t, "the tokens are charged", func() error {
		a := k.get(t, "/v1/free", customer)
		looks++
		left := remaining(t, a, 10000) + looks
		if left < most-10 {
			t.Fatalf("got %v; want about %d left", a, most)
		}
		if left > most+10 { // some come back meanwhile, three a second
			return errors.New("they are not yet")
		}
		return nil
	})
}
