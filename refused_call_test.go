package redisratelimit

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// call sends a request with a content type.
func call(t testing.TB, url, contentType string) *http.Response {
	t.Helper()
	response, err := http.Post(url, contentType, strings.NewReader("\x00\x00\x00\x00\x00"))
	redistest.Must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	redistest.FatalIf(t, err != nil || len(body) > 0 && response.Header.Get("Grpc-Status") != "", "the body is %q, error %v", body, err)
	return response
}

func TestRefusedCall_options(t *testing.T) {
	for i, test := range []struct {
		options, contentType string
		status               int
		grpcStatus           string
	}{
		{"", "application/grpc", 200, "8"},
		{`,"grpc":true,"problem_details":true,"status":503`, "application/grpc-web+proto", 200, "8"},
		{`,"grpc":null`, "application/grpc", 200, "8"},
		{`,"grpc":false`, "application/grpc", 429, ""},
		{`,"grpc":false,"problem_details":true`, "application/grpc", 429, ""},
		{"", "application/json", 429, ""},
		{"", "application/grpc<", 429, ""},
		{`,"status":503`, "application/grpc-evil", 503, ""},
	} {
		server := serve(t, hello, newHandler(t, fmt.Sprintf(`{"policies":[{"name":"p","key":"%d","limit":1,"window":"24h"}]%s}`, i, test.options)))
		if response := call(t, server.URL, test.contentType); response.StatusCode != http.StatusOK || response.Header.Get("Grpc-Status") != "" {
			t.Errorf("%s: the first call got %v", test.options, response)
		}
		response := call(t, server.URL, test.contentType)
		checkShare(t, response.Header, "1", "0")
		if response.StatusCode != test.status || response.Header.Get("Grpc-Status") != test.grpcStatus || response.Header.Get("Retry-After") == "" ||
			response.Header.Get("Cache-Control") != "no-store" || (test.grpcStatus != "" && response.Header.Get("Content-Type") != test.contentType) {
			t.Errorf("%s, %s: got %v", test.options, test.contentType, response)
		}
	}
}

// TestRefusedCall_jitter has Retry-After round up the pushback, unless it is beyond a minute.
func TestRefusedCall_jitter(t *testing.T) {
	for _, jitter := range []string{"2s", "24h"} {
		server := serve(t, hello, newHandler(t, `{"policies":[{"name":"p","key":"jitter `+jitter+`","limit":1,"window":"55s","algorithm":"gcra"}],"retry_jitter":"`+jitter+`"}`))
		call(t, server.URL, "application/grpc")
		for range 20 {
			header := call(t, server.URL, "application/grpc").Header
			seconds, err := strconv.ParseInt(header.Get("Retry-After"), 10, 64)
			redistest.Must(t, err)
			pushback, err := strconv.ParseInt(header.Get("Grpc-Retry-Pushback-Ms"), 10, 64)
			if err != nil || (seconds > 60) != (pushback == -1) || (seconds <= 60 && (pushback+999)/1000 != seconds) {
				t.Errorf("Retry-After is %d, the pushback %d, error %v", seconds, pushback, err)
			}
		}
	}
}

// TestRefusedCall_undecided has calls that the quota would let through: too many are held, the key is empty.
func TestRefusedCall_undecided(t *testing.T) {
	process.Held.Add(gate.MaxHeld)
	defer process.Held.Add(-gate.MaxHeld)
	for handler, want := range map[string]string{
		`{"policies":[{"name":"queue","limit":2,"window":"48h","algorithm":"leaky_bucket","max_delay":"48h"}]}`:                "14",
		`{"policies":[{"name":"keyed","key":"{http.request.header.X-Key}","limit":1,"window":"24h"}],"on_empty_key":"reject"}`: "3",
	} {
		server := serve(t, hello, newHandler(t, handler))
		if want == "14" {
			call(t, server.URL, "application/grpc") // passes at once
		}
		response := call(t, server.URL, "application/grpc")
		if response.StatusCode != http.StatusOK || response.Header.Get("Grpc-Status") != want || response.Header.Get("Grpc-Message") == "" {
			t.Errorf("got %v; want the code %s", response, want)
		}
		if want == "14" {
			checkShare(t, response.Header, "2", "0")
		}
	}
}

// TestRefusedCall_matcherError has a matcher fail: Caddy's log gets its error, as for any other request.
func TestRefusedCall_matcherError(t *testing.T) {
	h := newHandler(t, `{"policies":[{"name":"p","limit":1,"window":"24h"}]}`)
	failed := errors.New("a matcher failed")
	for _, err := range []error{failed, caddyhttp.Error(http.StatusBadRequest, failed)} {
		server := serve(t, func(w http.ResponseWriter, r *http.Request) error { return h.limiter.Visit(w, r).Refuse(err) })
		response := call(t, server.URL, "application/grpc")
		redistest.ErrorIf(t, response.StatusCode < 400 || response.Header.Get("Grpc-Status") != "", "got %v", response)
	}
}
