package caddytest

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
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

const (
	// Any is a body that Want does not compare.
	Any = "*"

	// NoQuota wants no rate limit headers.
	NoQuota = "X-Ratelimit-*:"
)

// Want checks the status, the body and headers of a response. Headers are written as in HTTP: "Name: value", and "Name:"
// where there must be none. In a body or value * stands for any text. A status of 0 is any.
func (a Response) Want(t testing.TB, status int, body string, headers ...string) Response {
	t.Helper()
	if err := a.differs(status, body, headers); err != nil {
		t.Error(err)
	}
	return a
}

func (a Response) differs(status int, body string, headers []string) error {
	fits := (status == 0 || a.Status == status) && matches(a.Body, body)
	for _, line := range headers {
		name, want, _ := strings.Cut(line, ":")
		got, want := strings.Join(a.Header.Values(name), ", "), strings.TrimSpace(want)
		fits = fits && matches(got, want) && (got != "" || want == "") && (line != NoQuota || !HasQuota(a))
	}
	if !fits {
		return fmt.Errorf("got %v; want status %d, body %q, headers %q", a, status, body, headers)
	}
	return nil
}

// matches reports whether a text is as wanted, where * stands for any.
func matches(text, want string) bool {
	if text == want || !strings.Contains(want, "*") {
		return text == want
	}
	return regexp.MustCompile("(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(want), `\*`, ".*") + "$").MatchString(text)
}

// Await requests a path until the response is as [Response.Want] wants it.
func (n *Node) Await(t testing.TB, path string, status int, body string, headers ...string) {
	t.Helper()
	assert.WaitFor(t, path+" is answered so", func() error { return n.Get(t, path).differs(status, body, headers) })
}

// WantFree checks that a request passed without rate limit headers.
func (a Response) WantFree(t testing.TB) {
	t.Helper()
	if a.Status != http.StatusOK || HasQuota(a) {
		t.Errorf("got %v; want it passed without rate limit headers", a)
	}
}

// CheckQuota checks the rate limit headers.
func CheckQuota(t testing.TB, a Response, limit, remaining int64) {
	t.Helper()
	a.Want(t, 0, Any, fmt.Sprint("X-Ratelimit-Limit: ", limit), fmt.Sprint("X-Ratelimit-Remaining: ", remaining))
	reset, err := strconv.ParseInt(a.Header.Get("X-Ratelimit-Reset"), 10, 64)
	if err != nil || time.Unix(reset, 0).Sub(a.Sent) < -2*time.Second {
		t.Errorf("X-RateLimit-Reset is %q, before the request was sent: %v", a.Header.Values("X-Ratelimit-Reset"), a)
	}
}

// CheckRefusal checks the headers of every refusal.
func CheckRefusal(t testing.TB, a Response, status int) Response {
	t.Helper()
	if a.Status != status || a.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("got %v; want status %d and Cache-Control: no-store", a, status)
	}
	if seconds, err := strconv.Atoi(a.Header.Get("Retry-After")); err != nil || seconds < 1 {
		t.Errorf("Retry-After is %q, want whole seconds from 1", a.Header.Values("Retry-After"))
	}
	return a
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
