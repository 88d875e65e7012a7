package requests

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// refusedClient is a client of a kind, and what begins the answer to its refusal.
type refusedClient struct {
	method, path string
	headers      []string
	status       int
	contentType  string
	body         string
}

var refusedClients = map[string]refusedClient{
	"a program": {"GET", "/a", nil, 429, "text/plain; charset=utf-8", deniedText},
	"an SDK": {
		"POST", "/a",
		[]string{
			"Accept: application/json",
		},
		429, "application/json", `{"type":"https://iana.org/*`,
	},
	"problem": {
		"GET", "/a",
		[]string{
			"Accept: application/problem+json",
		},
		429, "application/problem+json", `{"type":"https://iana.org/*`,
	},
	"gRPC": {"POST", "/a", []string{"Content-Type: application/grpc"}, 200, "application/grpc", ""},
	"Connect": {
		"POST", "/a",
		[]string{
			"Connect-Protocol-Version: 1",
			"Content-Type: application/json",
		},
		429, "application/json", `{"code":"resource_exhausted","message":"rate limit exceeded: policy *`,
	},
	"a stream of Connect": {
		"POST", "/a",
		[]string{
			"Connect-Protocol-Version: 1",
			"Content-Type: application/connect+json",
		},
		200, "application/connect+json",
		"\x02\x00\x00\x00*{\"error\":{\"code\":\"resource_exhausted\"*"},
	"S3": {
		"PUT", "/bucket/key",
		[]string{
			"Authorization: AWS4-HMAC-SHA256 Credential=AKID/20261127/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=00",
		},
		429, "application/xml", "<?xml*<Error><Code>SlowDown</Code>*"},
	"an image pull": {
		"GET", "/v2/lab/img/manifests/latest",
		nil,
		429, "application/json", `*"errors":[{"code":"TOOMANYREQUESTS"*`,
	},
	"ACME": {
		"POST", "/acme/new-order",
		[]string{
			"Content-Type: application/jose+json",
		},
		429, "application/problem+json", `{"type":"urn:ietf:params:acme:error:rateLimited"*`,
	},
	"Prometheus": {
		"POST", "/api/v1/write",
		[]string{
			"X-Prometheus-Remote-Write-Version: 0.1.0",
			"Content-Type: application/x-protobuf",
		},
		503, "text/plain; charset=utf-8", deniedText,
	},
	"EventSource": {
		"GET", "/events",
		[]string{
			"Accept: text/event-stream",
			"Cache-Control: no-cache",
			"Sec-Fetch-Mode: cors",
			"Sec-Fetch-Dest: empty",
		},
		200, "text/event-stream", "retry: *000\n\n"},
}

// answerLimit is a limit that denies the second request of a key for a few minutes.
const answerLimit = "key {header.X-Key}\nlimit 1\nwindow 10m\nalgorithm gcra\n"

// TestAnswer_auto has clients of each kind refused, by handlers that see another request than the clients sent, inside and
// outside of encode, under a status of their own, and as HEAD.
func TestAnswer_auto(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", `route {
		redis_ratelimit {
			name outer
			key {header.X-Outer}
			limit 100
			window 24h
			count_if status 429
		}
		@rewritten header X-Site rewritten
		route @rewritten {
			rewrite /other?x=y
			method GET
		}
		@inside header X-Site inside
		@outside header X-Site outside
		@other header X-Site other
		encode @inside {
			gzip
			minimum_length 1
			match status 2xx 4xx
		}
		redis_ratelimit @other { name other; `+answerLimit+`; status 503 }
		redis_ratelimit { name limit; `+answerLimit+` }
		encode @outside gzip
		respond ok
	}`))
	for name, c := range refusedClients {
		for _, site := range []string{"plain", "rewritten", "inside", "outside", "other"} {
			key := "X-Key: " + name + " " + site
			headers := append([]string{key, "X-Site: " + site, "X-Outer: " + name, "Accept-Encoding: gzip"}, c.headers...)
			n.Send(t, http.MethodGet, n.URL, "", key, "X-Site: "+site)
			a := n.Send(t, c.method, n.URL+c.path, "", headers...)
			if a.Header.Get("Content-Encoding") == "gzip" {
				reader := assert.NoError(gzip.NewReader(strings.NewReader(a.Body)))(t)
				a.Body = string(assert.NoError(io.ReadAll(reader))(t))
				assert.ErrorIf(t, site != "inside", "%s, %s: compressed", name, site)
			}
			status := c.status
			if site == "other" && (name == "a program" || name == "an SDK" || name == "problem") {
				status = 503
			}
			a.Want(t, status, c.body, "Content-Type: "+c.contentType)
			caddytest.CheckRefusal(t, a, status)
			if name != "gRPC" {
				a.Want(t, status, caddytest.Any, "X-Content-Type-Options: nosniff")
			}
			if c.method == http.MethodGet {
				n.Send(t, http.MethodHead, n.URL+c.path, "", headers...).Want(t, headStatus(name, site, status), "", "Retry-After: *")
			}
		}
		// 429 counts, whatever the answer says; four of the five sites have it, and those with GET had a HEAD.
		want := int64(100 - 4)
		if c.method == http.MethodGet {
			want -= 4
		}
		n.WaitForRefund(t, "outer", name, want)
	}
}

// TestAnswer_countIf_replaced has a handler in between answer a refusal in a page of its own, by which the handler further out
// counts, whatever the status of that page is. Only a page with the status and the type of the form is taken for the form.
func TestAnswer_countIf_replaced(t *testing.T) {
	t.Parallel()
	for _, client := range []string{"a program", "EventSource", "Prometheus"} {
		for _, replaced := range []int{403, 404, 429} {
			t.Run(fmt.Sprint(client, " ", replaced), func(t *testing.T) {
				t.Parallel()
				n := caddytest.Start(t, caddytest.Config("", fmt.Sprintf(`route {
					redis_ratelimit { name outer; key same; limit 9; window 24h; count_if status %d }
					intercept {
						@refused header Retry-After *
						handle_response @refused {
							respond page %[1]d
						}
					}
					redis_ratelimit { name inner; %s }
					respond 204
				}`, replaced, answerLimit)))
				c := refusedClients[client]
				for range 3 {
					n.Send(t, c.method, n.URL+c.path, "", append([]string{"X-Key: a"}, c.headers...)...)
				}
				n.WaitForRefund(t, "outer", "same", 7)
			})
		}
	}
}

// headStatus returns the status of the answer to HEAD, which no EventSource sends.
func headStatus(client, site string, status int) int {
	switch {
	case client != "EventSource":
		return status
	case site == "other":
		return http.StatusServiceUnavailable
	}
	return http.StatusTooManyRequests
}

// TestAnswer_option has each answer written out, on a site whose error routes would answer all refusals, and without these.
func TestAnswer_option(t *testing.T) {
	t.Parallel()
	handlers := ""
	for _, answer := range []string{"auto", "text", "json", "problem", "none", "error"} {
		handlers += fmt.Sprintf("@%s header X-Answer %[1]s\nredis_ratelimit @%[1]s { name %[1]s; answer %[1]s; %s }\n", answer, answerLimit)
	}
	handlers += "@absent not header X-Answer *\nredis_ratelimit @absent { name absent; " + answerLimit + " }\nrespond ok\n"
	for _, routes := range []string{"", "handle_errors { respond page }"} {
		n := caddytest.Start(t, caddytest.Config("", handlers+routes))
		refused := func(answer, client string) caddytest.Response {
			c := refusedClients[client]
			headers := append([]string{"X-Key: " + answer + client}, c.headers...)
			if answer != "absent" {
				headers = append(headers, "X-Answer: "+answer)
			}
			n.Send(t, http.MethodGet, n.URL, "", headers[0], "X-Answer: "+answer)
			if answer == "absent" {
				n.Send(t, http.MethodGet, n.URL, "", headers[0])
			}
			return n.Send(t, c.method, n.URL+c.path, "", headers...)
		}
		for client, c := range refusedClients {
			refused("auto", client).Want(t, c.status, c.body, "Content-Type: "+c.contentType)
			refused("text", client).Want(t, 429, deniedText, plainText)
			refused("problem", client).Want(t, 429, `{"type":"*`, "Content-Type: application/problem+json")
			refused("none", client).Want(t, 429, "", "Content-Type:", "Retry-After: *")
			kind := "application/json"
			if client == "problem" {
				kind = "application/problem+json"
			}
			refused("json", client).Want(t, 429, `{"type":"*`, "Content-Type: "+kind)
			if routes == "" {
				refused("error", client).Want(t, 429, "", "Retry-After: *")
				refused("absent", client).Want(t, c.status, c.body, "Content-Type: "+c.contentType)
				continue
			}
			refused("error", client).Want(t, 429, "page")
			if client == "gRPC" { // whose clients take a page for an outage
				refused("absent", client).Want(t, c.status, c.body, "Grpc-Status: 8")
			} else {
				refused("absent", client).Want(t, 429, "page")
			}
		}
	}
}

// TestAnswer_shouldRetry has an SDK that Stainless generates, and another client, denied for a short time and a long one.
func TestAnswer_shouldRetry(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", `header Access-Control-Allow-Origin *
	redis_ratelimit /short { name short; key same; limit 1; window 30s; algorithm gcra }
	redis_ratelimit /long { name long; key same; limit 1; window 10m; algorithm gcra }
	respond ok`))
	for path, want := range map[string]string{"/short": "X-Should-Retry:", "/long": "X-Should-Retry: false"} {
		n.Get(t, path)
		n.Get(t, path, "X-Stainless-Lang: js").Want(t, 429, caddytest.Any, want)
		n.Get(t, path).Want(t, 429, caddytest.Any, "X-Should-Retry:")
	}
	n.Get(t, "/long", "X-Stainless-Lang: js").Want(t, 429, caddytest.Any, "Access-Control-Expose-Headers: *Retry-After, X-Should-Retry")
}

// TestAnswer_eventSource has a browser open an event stream again and again. The refused ones come back when they are told.
func TestAnswer_eventSource(t *testing.T) {
	t.Parallel()
	browser := caddytest.Browser{Kind: caddytest.Chromium, Scripts: true, Cookies: true}
	browser.Kind.Find(t)
	var streams, closed atomic.Int64
	upstream := caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, `<title>events</title><script>
				const source = new EventSource("/events");
				source.onerror = () => { if (source.readyState === EventSource.CLOSED) fetch("/closed"); };
			</script>`)
		case "/events": // ends at once, so that the browser comes back
			streams.Add(1)
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "retry: 100\ndata: hello\n\n")
		case "/closed":
			closed.Add(1)
		}
	})
	n := caddytest.Start(t, caddytest.Config("", "log\nredis_ratelimit /events same 1 2s { name events; algorithm gcra }\nreverse_proxy "+upstream))
	browser.Open(t, n.URL+"/")
	var denied float64
	assert.Retry(t, "three streams are open one after the other", func() (again bool, seen any) {
		denied = n.Metric(t, `decisions_total{decision="denied",policy="events",source="memory"}`)
		return (streams.Load() < 3 || denied < 2) && closed.Load() == 0, []any{streams.Load(), denied} // a busy browser may come late
	})
	assert.ErrorIf(t, closed.Load() > 0, "the browser has closed its event source for ever")
	assert.ErrorIf(t, denied < 2, "%v were denied, want one between two streams", denied)
	assert.ErrorIf(t, int64(denied) > streams.Load()+1, "%v were denied for %d streams: some came back too early", denied, streams.Load())
	line := n.Log.Lines(func(l caddytest.LogLine) bool { return strings.Contains(l.Text, `"ratelimit_decision":"denied"`) })
	assert.ErrorIf(t, len(line) == 0 || !strings.Contains(line[0].Text, `"status":200`), "got %v", line)
}

// TestAnswer_hostile has headers of any bytes, whose clients get the line of text, and no other client anything else.
func TestAnswer_hostile(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", "redis_ratelimit same 1 10m { algorithm gcra }\nrespond ok"))
	n.Get(t, "/")
	for _, headers := range [][]string{
		{"Accept: application/json, text/html"}, {"Accept: \xff\xfe application/json"}, {"Accept: application/json;q=0"}, {"Accept: ," + strings.Repeat("application/json,", 500)},
		{"Content-Type: application/grpc", "Content-Type: application/json"}, {"Content-Type: application/connect+<script>"}, {"Content-Type: application/jose"},
		{"Authorization: AWS4-HMAC-SHA256 Credential=" + strings.Repeat("/s3/", 2000)}, {"Authorization: AWS4-/s3/"}, {"Authorization: Basic /s3/"},
		{"Accept: text/event-stream", "Cache-Control: no-cache"}, {"Connect-Protocol-Versions: 1"},
	} {
		a := n.Get(t, "/", headers...)
		caddytest.CheckRefusal(t, a, http.StatusTooManyRequests).Want(t, 0, deniedText, plainText)
	}
	for _, path := range []string{"/v2/manifests/x", "/v2//tags/", "/?X-Amz-Credential=%2Fs3%2F", "/?X-Amz-Algorithm=AWS4-&X-Amz-Credential=%zz/s3/", "/?connect=v2", "/v2/a/blobs"} {
		n.Get(t, path).Want(t, http.StatusTooManyRequests, deniedText, plainText)
	}
	begin := time.Now()
	for range 200 {
		n.Get(t, "/", "Accept: "+strings.Repeat(";,/", 3000))
	}
	assert.ErrorIf(t, time.Since(begin) > time.Minute, "200 huge headers took %v", time.Since(begin))
}
