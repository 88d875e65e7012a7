package caddytest

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// example returns Caddyfile.example on the ports that [start] sets.
func example(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../Caddyfile.example")
	if err != nil {
		t.Fatal(err)
	}
	for _, port := range []string{"admin localhost:2019", "\n:8080 {"} {
		if !strings.Contains(string(text), port) {
			t.Fatalf("Caddyfile.example has no %q, which this test replaces", port)
		}
	}
	return strings.NewReplacer("admin localhost:2019", "admin {$ADMIN}", "\n:8080 {", "\n:{$PORT} {").Replace(string(text))
}

func TestQuickStart_searches(t *testing.T) {
	n := start(t, example(t))
	for i := range 3 {
		a := n.get(t, "/search")
		checkQuota(t, a, 3, int64(2-i))
		if want := "Hello. " + strconv.Itoa(2-i) + " of 3 left.\n"; a.status != http.StatusOK || a.body != want {
			t.Errorf("search %d: %v; want 200 and %q", i+1, a, want)
		}
	}
	a := n.get(t, "/search")
	checkQuota(t, a, 3, 0)
	checkRefusal(t, a, http.StatusTooManyRequests)
	if seconds, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || seconds < 1 || seconds > 6 {
		t.Errorf("Retry-After: %q; a search comes back within 6 seconds", a.header.Get("Retry-After"))
	}
	var seconds float64
	if _, err := fmt.Sscanf(a.body, "429 Too Many Requests: policy search, retry in %f s.\n", &seconds); err != nil || seconds <= 0 || seconds > 6 {
		t.Errorf("the error page says %q (%v)", a.body, err)
	}
}

func TestQuickStart_all(t *testing.T) {
	n := start(t, example(t))
	begin := time.Now()
	admitted := 0
	for range 120 {
		switch a := n.get(t, "/"); a.status {
		case http.StatusOK:
			admitted++
		case http.StatusTooManyRequests:
			checkQuota(t, a, 100, 0)
			checkRefusal(t, a, http.StatusTooManyRequests)
			if !strings.Contains(a.body, "policy default, retry in") {
				t.Errorf("the error page says %q", a.body)
			}
		default:
			t.Fatalf("got %v", a)
		}
	}
	if most := 100 + 2 + int(time.Since(begin)*100/time.Minute); admitted < 100 || admitted > most {
		t.Errorf("%d requests passed in %v, want 100 to %d", admitted, time.Since(begin), most)
	}
}

// checkQuota checks the rate limit headers.
func checkQuota(t testing.TB, a answer, limit, remaining int64) {
	t.Helper()
	for name, want := range map[string]string{
		"X-Ratelimit-Limit":     strconv.FormatInt(limit, 10),
		"X-Ratelimit-Remaining": strconv.FormatInt(remaining, 10),
	} {
		if got := a.header.Values(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q, want %s: %v", name, got, want, a)
		}
	}
	reset, err := strconv.ParseInt(a.header.Get("X-Ratelimit-Reset"), 10, 64)
	if err != nil || time.Until(time.Unix(reset, 0)) < -2*time.Second {
		t.Errorf("X-RateLimit-Reset is %q, no Unix time to come", a.header.Values("X-Ratelimit-Reset"))
	}
}

// checkRefusal checks the headers of every refusal.
func checkRefusal(t testing.TB, a answer, status int) {
	t.Helper()
	if a.status != status || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("got %v; want status %d and Cache-Control: no-store", a, status)
	}
	if seconds, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || seconds < 1 {
		t.Errorf("Retry-After is %q, want whole seconds from 1", a.header.Values("Retry-After"))
	}
}

// checkAdmitted checks that a request passed, and the source of the decision.
func checkAdmitted(t testing.TB, a answer, source string) {
	t.Helper()
	if a.status != http.StatusOK || a.body != "allowed "+source {
		t.Fatalf("got %v; want it allowed by %s", a, source)
	}
}
