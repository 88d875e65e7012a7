package requests

import (
	"compress/gzip"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// The bodies of refusals that no error route handles.
const (
	deniedText      = "Too many requests. Try again in *."
	unavailableText = "The service is unavailable. Try again in 1 second."
	incompleteText  = "A value that is required is missing, repeated or ambiguous."

	plainText = "Content-Type: text/plain; charset=utf-8"
)

func TestRefusal_text(t *testing.T) {
	n := caddytest.WithoutRedis(t, "", `
	redis_ratelimit /seconds same 1 50s { name seconds; algorithm gcra }
	redis_ratelimit /days same 1 76h { name days; algorithm gcra }
	redis_ratelimit /never { name never; limit {query.limit} 1; window 24h }
	redis_ratelimit /forbidden same 1 24h { name forbidden; algorithm gcra; status 403 }
	redis_ratelimit /running { name running; key same; max_concurrent {query.n} 1 }
	redis_ratelimit /closed same 1 24h { name closed; fail_mode closed }
	redis_ratelimit /incomplete {header.X-Key} 1 24h { name incomplete; on_empty_key reject }
	redis_ratelimit /usage same 1 24h { name usage; usage /usage; fail_mode closed }
	respond ok`)
	n.Get(t, "/seconds").Want(t, http.StatusOK, "ok")
	a := caddytest.CheckRefusal(t, n.Get(t, "/seconds"), http.StatusTooManyRequests).Want(t, 0, caddytest.Any, plainText)
	seconds := a.Header.Get("Retry-After") + " second"
	if seconds != "1 second" {
		seconds += "s"
	}
	assert.Equal(t, a.Body, "Too many requests. Try again in "+seconds+".", "the body")
	assert.Equal(t, a.Header.Get("Content-Length"), strconv.Itoa(len(a.Body)), "Content-Length")
	for path, want := range map[string]struct {
		status int
		body   string
	}{
		"/days":          {429, "Too many requests. Try again in 3 days 4 hours."},
		"/never?limit=0": {429, "Too many requests."},
		"/forbidden":     {403, "Too many requests. Try again in 1 day."},
		"/running?n=0":   {429, "Too many requests."},
		"/closed":        {503, unavailableText},
		"/incomplete":    {400, incompleteText},
		"/usage":         {503, unavailableText},
	} {
		n.Get(t, path)
		n.Get(t, path).Want(t, want.status, want.body, plainText)
		n.Send(t, http.MethodPost, n.URL+path, "a body").Want(t, want.status, want.body, plainText)
		n.Send(t, http.MethodHead, n.URL+path, "").Want(t, want.status, "", plainText)
	}
}

// TestRefusal_errorRoutes has sites whose error routes can handle a refusal, and others.
func TestRefusal_errorRoutes(t *testing.T) {
	t.Parallel()
	const limit = `
	redis_ratelimit /denied {host} 1 24h { name denied }
	redis_ratelimit /closed {host} 1 24h { name closed; fail_mode closed }
	redis_ratelimit /incomplete {header.X-Key} 1 24h { name incomplete; on_empty_key reject }
	error /missing 404
	respond ok
`
	away := "redis_ratelimit { redis redis://" + redistest.FreeAddr(t) + " }"
	sites := func(one, other string) string {
		return caddytest.ConfigWithSites(away, "http://127.0.0.1:{$PORT} {"+limit+one+"\n}\n\nhttp://localhost:{$PORT} {"+limit+other+"\n}\n")
	}
	const page, pageBody = "handle_errors { respond \"{err.status_code} page\" }", "* page"
	for name, test := range map[string]struct{ text, denied, closed, incomplete, missing string }{
		"no block":               {sites("", ""), deniedText, unavailableText, incompleteText, ""},
		"every status":           {sites(page, ""), pageBody, pageBody, pageBody, pageBody},
		"404 alone":              {sites("handle_errors 404 { respond page }", ""), deniedText, unavailableText, incompleteText, "page"},
		"4xx":                    {sites("handle_errors 4xx { respond page }", ""), "page", unavailableText, "page", "page"},
		"one and 5xx":            {sites("handle_errors 429 5xx { respond page }", ""), "page", "page", incompleteText, ""},
		"another site's block":   {sites("", page), deniedText, unavailableText, incompleteText, ""},
		"a path matcher":         {sites("handle_errors { respond /closed page }", ""), "", "page", "", ""},
		"a path matcher for 404": {sites("handle_errors 404 { respond /closed page }", ""), deniedText, unavailableText, incompleteText, ""},
		"a named route":          {sites("invoke /unused unused", "") + "\n&(unused) {\n\trespond unused\n}\n", "", "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := caddytest.Start(t, test.text)
			n.Get(t, "/denied").Want(t, http.StatusOK, "ok")
			for range 2 { // decided, and as it was decided
				caddytest.CheckRefusal(t, n.Get(t, "/denied"), http.StatusTooManyRequests).Want(t, 0, test.denied)
				caddytest.CheckRefusal(t, n.Get(t, "/closed"), http.StatusServiceUnavailable).Want(t, 0, test.closed)
				n.Get(t, "/incomplete").Want(t, http.StatusBadRequest, test.incomplete)
			}
			n.Get(t, "/missing").Want(t, http.StatusNotFound, test.missing)
		})
	}
}

// TestRefusal_reload has a reload change what error routes can handle.
func TestRefusal_reload(t *testing.T) {
	const limit = "redis_ratelimit same 1 24h\nrespond ok\n"
	n := caddytest.InProcess(t, limit)
	n.Get(t, "/")
	n.Get(t, "/").Want(t, http.StatusTooManyRequests, deniedText)
	n.Reload(t, caddytest.WithPorts(n, caddytest.Config("", limit+"handle_errors 429 { respond page }")))
	n.Get(t, "/").Want(t, http.StatusTooManyRequests, "page")
	n.Reload(t, caddytest.WithPorts(n, caddytest.Config("", limit+"handle_errors 404 { respond page }")))
	n.Get(t, "/").Want(t, http.StatusTooManyRequests, deniedText)
}

// TestRefusal_pageHeaders has handlers further out set the headers of a page that is not sent, compress the answer, and
// take it for a template.
func TestRefusal_pageHeaders(t *testing.T) {
	n := caddytest.InProcess(t, `route {
		header /stale {
			Content-Type application/pdf
			Content-Encoding br
			Content-Length 5
			Content-Disposition attachment
			Accept-Ranges bytes
			Etag "\"1\""
			Last-Modified "Fri, 27 Nov 2026 00:00:00 GMT"
		}
		handle /zipped* {
			encode {
				gzip
				minimum_length 1
			}
		}
		templates /template
		redis_ratelimit /stale/problem same 1 24h { name problem; answer problem }
		redis_ratelimit {path} 1 24h { name all }
		respond "{{1}}"
	}`)
	for _, path := range []string{"/stale", "/stale/problem", "/zipped", "/template"} {
		n.Get(t, path)
	}
	gone := []string{"Content-Encoding:", "Content-Disposition:", "Accept-Ranges:", "Etag:", "Last-Modified:"}
	n.Get(t, "/stale").Want(t, http.StatusTooManyRequests, deniedText, append(gone, plainText)...)
	n.Get(t, "/template").Want(t, http.StatusTooManyRequests, deniedText, append(gone, plainText)...)
	zipped := n.Get(t, "/zipped", "Accept-Encoding: gzip")
	zipped.Want(t, http.StatusTooManyRequests, caddytest.Any, "Content-Encoding: gzip", plainText)
	reader := assert.NoError(gzip.NewReader(strings.NewReader(zipped.Body)))(t)
	zipped.Body = string(assert.NoError(io.ReadAll(reader))(t))
	zipped.Want(t, 0, deniedText)
}

// TestRefusal_longWait has waits that timers of node cannot count. What clients sleep by is shorter, and spread by
// retry_jitter; what tells when the quota comes back is true.
func TestRefusal_longWait(t *testing.T) {
	const longest, year = 2_147_483, 365 * 24 * 60 * 60
	n := caddytest.InProcess(t, `route {
		redis_ratelimit /exact same 1 365d { name exact; algorithm gcra; headers x_ratelimit ietf }
		redis_ratelimit /jitter* {
			policy wide { key same; limit 3; window 365d; algorithm gcra }
			policy tight { key same; limit 1; window 365d; algorithm gcra }
			headers x_ratelimit ietf
			retry_jitter 1h
			usage /jitter/quota
		}
		redis_ratelimit /page same 1 365d { name page; algorithm gcra }
		respond ok
	}
	handle_errors { respond /page "{http.redis_ratelimit.retry_after}" }`)
	n.Get(t, "/exact")
	n.Get(t, "/jitter")
	n.Get(t, "/page")
	a := n.Get(t, "/exact").Want(t, http.StatusTooManyRequests, caddytest.Any, "Retry-After: 2147483", `RateLimit: "exact";r=0;t=2147483`)
	checkNear(t, "X-RateLimit-Reset in s", resetOf(t, a), year)
	seen := map[string]bool{}
	for range 10 {
		a = n.Get(t, "/jitter").Want(t, http.StatusTooManyRequests, caddytest.Any)
		wait := a.Header.Get("Retry-After")
		seen[wait] = true
		seconds := assert.NoError(strconv.Atoi(wait))(t)
		assert.ErrorIf(t, seconds < longest-3600 || seconds > longest, "Retry-After is %d", seconds)
		items := caddytest.CheckItemNames(t, a, "RateLimit", "wide", "tight")
		told, _ := items[1].Params.Get("t")
		assert.Equal(t, told, any(int64(seconds)), "t of the policy that denies")
		reset, _ := items[0].Params.Get("t")
		left, _ := reset.(int64)
		checkNear(t, "t of the other policy", float64(left), year/3)
		passes := resetOf(t, a)
		assert.ErrorIf(t, passes < year-60 || passes > year+3600, "X-RateLimit-Reset is in %v s", passes)
	}
	assert.ErrorIf(t, len(seen) < 5, "10 clients get %v", seen)
	page := n.Get(t, "/page").Want(t, http.StatusTooManyRequests, caddytest.Any, "Retry-After: 2147483")
	checkNear(t, "{http.redis_ratelimit.retry_after}", assert.NoError(strconv.ParseFloat(page.Body, 64))(t), year)
	quota := n.Get(t, "/jitter/quota").Want(t, http.StatusOK, caddytest.Any)
	type policy struct {
		RetryAfter float64 `json:"retry_after"`
	}
	policies := caddytest.ParseJSON[struct{ Policies []policy }](t, quota).Policies
	assert.FatalIf(t, len(policies) != 2, "got %v", quota)
	checkNear(t, "retry_after of usage", policies[1].RetryAfter, year)
	called := n.Send(t, http.MethodPost, n.URL+"/exact", "", "Content-Type: application/grpc")
	seconds := regexp.MustCompile(`retry in (\d+) s`).FindStringSubmatch(called.Header.Get("Grpc-Message"))
	assert.FatalIf(t, seconds == nil, "got %v", called)
	checkNear(t, "the wait of a call", assert.NoError(strconv.ParseFloat(seconds[1], 64))(t), year)
}

// checkNear checks a time in seconds that passes while the test runs.
func checkNear(t *testing.T, what string, got, want float64) {
	t.Helper()
	assert.ErrorIf(t, got > want+2 || got < want-60, "%s is %v, want %v or a bit less", what, got, want)
}
