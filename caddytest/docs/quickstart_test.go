package docs

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// example returns Caddyfile.example on the ports that [caddytest.Start] sets.
func example(t *testing.T) string {
	t.Helper()
	text := caddytest.ReadFile(t, "Caddyfile.example")
	for _, port := range []string{"admin localhost:2019", "\n:8080 {"} {
		if !strings.Contains(text, port) {
			t.Fatalf("Caddyfile.example has no %q, which this test replaces", port)
		}
	}
	return strings.NewReplacer("admin localhost:2019", "admin {$ADMIN}", "\n:8080 {", "\n:{$PORT} {").Replace(text)
}

func TestQuickStart_searches(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, example(t))
	for i := range 3 {
		a := n.Get(t, "/search")
		caddytest.CheckQuota(t, a, 3, int64(2-i))
		if want := "Hello. " + strconv.Itoa(2-i) + " of 3 left.\n"; a.Status != http.StatusOK || a.Body != want {
			t.Errorf("search %d: %v; want 200 and %q", i+1, a, want)
		}
	}
	a := n.Get(t, "/search")
	caddytest.CheckQuota(t, a, 3, 0)
	caddytest.CheckRefusal(t, a, http.StatusTooManyRequests)
	if seconds, err := strconv.Atoi(a.Header.Get("Retry-After")); err != nil || seconds < 1 || seconds > 6 {
		t.Errorf("Retry-After: %q; a search comes back within 6 seconds", a.Header.Get("Retry-After"))
	}
	var seconds float64
	if _, err := fmt.Sscanf(a.Body, "429 Too Many Requests: policy search, retry in %f s.\n", &seconds); err != nil || seconds <= 0 || seconds > 6 {
		t.Errorf("the error page says %q (%v)", a.Body, err)
	}
}

func TestQuickStart_all(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, example(t))
	begin := time.Now()
	admitted := 0
	for range 120 {
		switch a := n.Get(t, "/"); a.Status {
		case http.StatusOK:
			admitted++
		case http.StatusTooManyRequests:
			caddytest.CheckQuota(t, a, 100, 0)
			caddytest.CheckRefusal(t, a, http.StatusTooManyRequests)
			if !strings.Contains(a.Body, "policy default, retry in") {
				t.Errorf("the error page says %q", a.Body)
			}
		default:
			t.Fatalf("got %v", a)
		}
	}
	if most := 100 + 2 + int(time.Since(begin)*100/time.Minute); admitted < 100 || admitted > most {
		t.Errorf("%d requests passed in %v, want 100 to %d", admitted, time.Since(begin), most)
	}
}
