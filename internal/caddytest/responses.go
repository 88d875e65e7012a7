package caddytest

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
)

// HasQuota reports whether an answer has rate limit headers.
func HasQuota(a Response) bool {
	for name := range a.Header {
		if strings.HasPrefix(name, "X-Ratelimit-") {
			return true
		}
	}
	return false
}

// CheckQuota checks the rate limit headers.
func CheckQuota(t testing.TB, a Response, limit, remaining int64) {
	t.Helper()
	for name, want := range map[string]string{
		"X-Ratelimit-Limit":     strconv.FormatInt(limit, 10),
		"X-Ratelimit-Remaining": strconv.FormatInt(remaining, 10),
	} {
		if got := a.Header.Values(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q, want %s: %v", name, got, want, a)
		}
	}
	reset, err := strconv.ParseInt(a.Header.Get("X-Ratelimit-Reset"), 10, 64)
	if err != nil || time.Unix(reset, 0).Sub(a.Sent) < -2*time.Second {
		t.Errorf("X-RateLimit-Reset is %q, before the request was sent: %v", a.Header.Values("X-Ratelimit-Reset"), a)
	}
}

// CheckRefusal checks the headers of every refusal.
func CheckRefusal(t testing.TB, a Response, status int) {
	t.Helper()
	if a.Status != status || a.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("got %v; want status %d and Cache-Control: no-store", a, status)
	}
	if seconds, err := strconv.Atoi(a.Header.Get("Retry-After")); err != nil || seconds < 1 {
		t.Errorf("Retry-After is %q, want whole seconds from 1", a.Header.Values("Retry-After"))
	}
}

// CheckAdmitted checks that a request passed, and the source of the decision.
func CheckAdmitted(t testing.TB, a Response, source string) {
	t.Helper()
	if a.Status != http.StatusOK || a.Body != "allowed "+source {
		t.Fatalf("got %v; want it allowed by %s", a, source)
	}
}

// CheckItemNames checks the items of a list and returns them.
func CheckItemNames(t *testing.T, a Response, header string, names ...string) (items []httpsfv.Item) {
	t.Helper()
	list, err := httpsfv.UnmarshalList(a.Header.Values(header))
	if err != nil || len(list) != len(names) {
		t.Fatalf("%s of %v: %v, error %v", header, a, list, err)
	}
	for i, member := range list {
		item, ok := member.(httpsfv.Item)
		if !ok || item.Value != names[i] {
			t.Fatalf("%s of %v: item %d is %v, want %s", header, a, i, member, names[i])
		}
		items = append(items, item)
	}
	return items
}
