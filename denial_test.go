package redisratelimit

import (
	"io"
	"net/http"
	"strconv"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/quotaheader"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// hello is a handler that answers.
func hello(w http.ResponseWriter, _ *http.Request) error {
	_, err := io.WriteString(w, "hello")
	return err
}

func TestDenial_tells_when_to_come_back(t *testing.T) {
	server := serve(t, hello, newHandler(t, `{"policies":[{"name":"p","limit":2,"window":"10s","algorithm":"gcra"}],"status":503}`))
	for range 2 {
		if response := fetch(t, server.URL); response.StatusCode != http.StatusOK || response.Header.Get("Retry-After") != "" || response.Header.Get("Cache-Control") != "" {
			t.Fatalf("got %v", response)
		}
	}
	response := fetch(t, server.URL)
	checkShare(t, response.Header, "2", "0")
	if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("got %v; want status 503 and Cache-Control: no-store", response)
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err != nil || seconds < 1 || seconds > 5 {
		t.Errorf("Retry-After is %q; the next unit comes within 5 seconds", response.Header.Get("Retry-After"))
	}
}

// TestDenial_that_never_ends_names_no_time has two rules that together weigh more than the limit.
func TestDenial_that_never_ends_names_no_time(t *testing.T) {
	server := serve(t, hello, newHandler(t, `{"policies":[
		{"name":"p","key":"x","limit":3,"window":"10s","weight":2},
		{"name":"p","key":"x","limit":3,"window":"10s","weight":2}]}`))
	response := fetch(t, server.URL)
	if h := response.Header; response.StatusCode != http.StatusTooManyRequests || h.Get(quotaheader.Remaining) != "3" || len(h["Retry-After"])+len(h[quotaheader.Reset]) > 0 {
		t.Errorf("got %v; want status 429 with 3 units and without times", response)
	}
}

func TestTwo_handlers_show_the_policy_that_binds(t *testing.T) {
	for _, test := range []struct {
		name         string
		outer, inner string
	}{
		{"the outer one binds", "5", "10"},
		{"the inner one binds", "10", "5"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := serve(t, hello, newHandler(t, policyJSON("outer", test.outer)), newHandler(t, policyJSON("inner", test.inner)))
			for remaining := 4; remaining >= 0; remaining-- {
				response := fetch(t, server.URL)
				checkShare(t, response.Header, "5", strconv.Itoa(remaining))
			}
			response := fetch(t, server.URL)
			checkShare(t, response.Header, "5", "0")
			redistest.ErrorIf(t, response.StatusCode != http.StatusTooManyRequests, "the status is %d, want 429", response.StatusCode)
		})
	}
}

// TestTwo_policies_of_one_handler_are_charged_together has the second deny, which must leave the
// first one's share alone.
func TestTwo_policies_of_one_handler_are_charged_together(t *testing.T) {
	both := newHandler(t, `{"policies":[{"name":"wide","key":"x","limit":10,"window":"24h"},{"name":"tight","key":"x","limit":1,"window":"24h"}]}`)
	server := serve(t, hello, both)
	for _, status := range []int{200, 429, 429} {
		response := fetch(t, server.URL)
		checkShare(t, response.Header, "1", "0")
		redistest.ErrorIf(t, response.StatusCode != status, "the status is %d, want %d", response.StatusCode, status)
	}
	wide := serve(t, hello, newHandler(t, `{"policies":[{"name":"wide","key":"x","limit":10,"window":"24h"}]}`))
	checkShare(t, fetch(t, wide.URL).Header, "10", "8")
}

// TestOne_policy_twice_takes_the_sum has two rules yield the same share.
func TestOne_policy_twice_takes_the_sum(t *testing.T) {
	server := serve(t, hello, newHandler(t, `{"policies":[
		{"name":"p","key":"x","limit":10,"window":"24h","weight":2},
		{"name":"p","key":"x","limit":10,"window":"24h","weight":5}]}`))
	checkShare(t, fetch(t, server.URL).Header, "10", "3")
	response := fetch(t, server.URL)
	checkShare(t, response.Header, "10", "3")
	redistest.ErrorIf(t, response.StatusCode != http.StatusTooManyRequests, "the status is %d, want 429", response.StatusCode)
}
