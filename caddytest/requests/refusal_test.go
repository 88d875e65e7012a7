// Package requests tests what requests get while all is well: decisions, headers, refunds, charges and logs.
package requests

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// TestHeaders_ietf reads the headers with a parser of structured fields.
func TestHeaders_ietf(t *testing.T) {
	n := caddytest.InProcess(t, `redis_ratelimit {
		policy burst { key same; limit 10; window 1s; algorithm token_bucket; burst 2 }
		policy sustained { key same; limit 100; window 1m; algorithm fixed_window }
		headers x_ratelimit ietf
	}
	redis_ratelimit /hidden same 5 1h { name hidden; headers off }
	respond ok`)
	a := n.Get(t, "/hidden")
	checkItems(t, a, "RateLimit-Policy", `"burst";q=2, "sustained";q=100;w=60`)
	items := caddytest.CheckItemNames(t, a, "RateLimit", "burst", "sustained")
	r, _ := items[1].Params.Get("r")
	assert.ErrorIf(t, r != int64(99), "got %v", a)
	value, _ := items[1].Params.Get("t")
	if seconds, ok := value.(int64); !ok || seconds < 1 || seconds > 60 {
		t.Errorf("got %v", a)
	}
	caddytest.CheckQuota(t, a, 2, 1)
	for range 1000 { // ten units a second flow back
		if a = n.Get(t, "/"); a.Status == http.StatusTooManyRequests {
			break
		}
	}
	caddytest.CheckItemNames(t, a, "RateLimit", "burst", "sustained")
	caddytest.CheckQuota(t, a, 2, 0)
}

func checkItems(t *testing.T, a caddytest.Response, header, want string) {
	t.Helper()
	assert.Equal(t, a.Header.Values(header), []string{want}, "%s", header)
}

func TestHeaders_off(t *testing.T) {
	n := caddytest.InProcess(t, "redis_ratelimit same 1 24h {\nheaders off\n}\nrespond ok")
	n.Get(t, "/").Want(t, 0, caddytest.Any, caddytest.NoQuota)
	caddytest.CheckRefusal(t, n.Get(t, "/").Want(t, 0, caddytest.Any, caddytest.NoQuota, "RateLimit:"), http.StatusTooManyRequests)
}

// TestReset_ofDenials compares the time with that of Retry-After. The whole quotas come back after days.
func TestReset_ofDenials(t *testing.T) {
	n := caddytest.InProcess(t, `route {
	redis_ratelimit same 24 24h { name outer; algorithm token_bucket; burst 48 }
	redis_ratelimit /jitter jitter 1 24h { name jitter; retry_jitter 24h }
	redis_ratelimit /hidden hidden 1 24h { name hidden; headers off }
	redis_ratelimit /inner inner 1 24h { name inner }
	redis_ratelimit /zero { name zero; limit {query.limit} 1; window 24h }
	respond ok
}
handle_errors { respond sorry }`)
	for _, path := range []string{"/jitter", "/hidden", "/inner"} {
		passed := n.Get(t, path)
		assert.ErrorIf(t, passed.Status != http.StatusOK || resetOf(t, passed) < 0 || passed.Header.Get("Retry-After") != "", "%s: got %v", path, passed)
		denied := n.Get(t, path)
		caddytest.CheckRefusal(t, denied, http.StatusTooManyRequests)
		wait, _ := strconv.ParseFloat(denied.Header.Get("Retry-After"), 64)
		// It was decided between the request and its answer.
		left := resetOf(t, denied)
		assert.ErrorIf(t, left-denied.Took.Seconds() > wait+1 || left < wait-3, "%s: Retry-After is %v, X-RateLimit-Reset in %v s", path, wait, left)
	}
	// There is neither time for what never passes.
	n.Get(t, "/zero?limit=0").Want(t, http.StatusTooManyRequests, caddytest.Any, "Retry-After:", "X-Ratelimit-Reset:")
}

// resetOf returns the seconds from the request until X-RateLimit-Reset.
func resetOf(t *testing.T, a caddytest.Response) float64 {
	t.Helper()
	reset, err := strconv.ParseInt(a.Header.Get("X-Ratelimit-Reset"), 10, 64)
	assert.ErrorIf(t, err != nil, "X-RateLimit-Reset is %q", a.Header.Values("X-Ratelimit-Reset"))
	return time.Unix(reset, 0).Sub(a.Sent).Seconds()
}

func TestHeaders_exposed(t *testing.T) {
	n := caddytest.InProcess(t, `header /open Access-Control-Allow-Origin *
	header /open Access-Control-Expose-Headers X-Other
	header /deferred >Access-Control-Allow-Origin *
	redis_ratelimit {path} 1 24h
	respond ok`)
	n.Get(t, "/closed").Want(t, 0, caddytest.Any, "Access-Control-Expose-Headers:")
	for _, more := range []string{"", ", Retry-After"} {
		checkItems(t, n.Get(t, "/deferred", "Origin: https://app.example.com"), "Access-Control-Expose-Headers", "X-Ratelimit-Limit, X-Ratelimit-Remaining, X-Ratelimit-Reset"+more)
	}
	const fields = "X-Other, X-Ratelimit-Limit, X-Ratelimit-Remaining, X-Ratelimit-Reset"
	checkItems(t, n.Get(t, "/open"), "Access-Control-Expose-Headers", fields)
	checkItems(t, n.Get(t, "/open"), "Access-Control-Expose-Headers", fields+", Retry-After")
}

func TestHeaders_exposed_redisDown(t *testing.T) {
	n := caddytest.WithoutRedis(t, "fail_mode closed", "header Access-Control-Allow-Origin *\nredis_ratelimit same 1 24h\nrespond ok")
	a := caddytest.CheckRefusal(t, n.Get(t, "/"), http.StatusServiceUnavailable)
	checkItems(t, a, "Access-Control-Expose-Headers", "Retry-After")
}

func TestRetryJitter(t *testing.T) {
	n := caddytest.InProcess(t, "redis_ratelimit same 1 24h {\nalgorithm sliding_window_log\nretry_jitter 1h\n}\nrespond ok")
	n.Get(t, "/")
	seen := map[string]bool{}
	for range 10 {
		a := n.Get(t, "/")
		caddytest.CheckRefusal(t, a, http.StatusTooManyRequests)
		seen[a.Header.Get("Retry-After")] = true
		if seconds, err := strconv.Atoi(a.Header.Get("Retry-After")); err != nil || seconds > 25*60*60+1 {
			t.Errorf("got %v", a)
		}
	}
	assert.ErrorIf(t, len(seen) < 5, "10 clients get %v", seen)
}

func TestProblemDetails(t *testing.T) {
	n := caddytest.WithoutRedis(t, "", `@open not path /closed
	redis_ratelimit @open {
		policy tight { key same; limit 1; window 24h }
		policy wide { key same; limit 100; window 24h }
		answer problem
	}
	redis_ratelimit /closed other 1 24h { fail_mode closed; answer problem }
	respond ok
	handle_errors { respond "error route" }`)
	n.Get(t, "/")
	for path, want := range map[string]struct {
		status int
		body   string
	}{"/": {429, `quota-exceeded","title":"*","status":429,"detail":"Too many requests. Try again in *.","violated-policies":["tight"],*`}, "/closed": {503, `temporary-reduced-capacity","title":"*","status":503,*`}} {
		a := caddytest.CheckRefusal(t, n.Get(t, path), want.status)
		a.Want(t, 0, `{"type":"https://iana.org/assignments/http-problem-types#`+want.body, "Content-Type: application/problem+json")
	}
}

// TestDenial_errorRoutes has error routes at the server, in a subroute, in one that invokes the limit as a
// named route, and none.
func TestDenial_errorRoutes(t *testing.T) {
	t.Parallel()
	const (
		limit   = `{"handler": "redis_ratelimit", "policies": [{"name": "%s", "limit": 1, "window": "24h"}]}`
		respond = `{"handler": "static_response", "body": "{http.error.status_code} %s"}`
	)
	errorRoutes := func(who string) string {
		return `"errors": {"routes": [{"handle": [` + fmt.Sprintf(respond, who) + `]}]}`
	}
	const invoke = `{"handler": "invoke", "name": "limits"}`
	inner := func(handler, more string) string {
		return `{"handler": "subroute"` + more + `, "routes": [{"handle": [` + handler + `]}]}`
	}
	for name, test := range map[string]struct{ subroute, server, want string }{
		"nowhere":     {"", "", deniedText},
		"at_server":   {"", ", " + errorRoutes("server"), "429 server"},
		"in_subroute": {", " + errorRoutes("subroute"), "", "429 subroute"},
		"in_both":     {", " + errorRoutes("subroute"), ", " + errorRoutes("server"), "429 subroute"},
		"invoked":     {", " + errorRoutes("subroute"), `, "named_routes": {"limits": {"handle": [` + fmt.Sprintf(limit, "invoked") + `]}}`, "429 subroute"},
	} {
		t.Run(name, func(t *testing.T) {
			n := caddytest.Start(t, caddytest.Config("", "respond old"))
			listen := strings.TrimPrefix(n.URL, "http://")
			handler := fmt.Sprintf(limit, name)
			if name == "invoked" {
				handler = invoke
			}
			a := n.Load(t, `{"admin": {"listen": "`+strings.TrimPrefix(n.Admin, "http://")+`"},
				"apps": {"http": {"grace_period": "1s", "servers": {"s": {"listen": ["`+listen+`"], "automatic_https": {"disable": true},
				"routes": [{"handle": [`+inner(handler, test.subroute)+`]}]`+test.server+`}}}}}`, "Content-Type: application/json")
			assert.FatalIf(t, a.Status != http.StatusOK, "got %v", a)
			caddytest.CheckQuota(t, n.Get(t, "/"), 1, 0)
			a = n.Get(t, "/").Want(t, http.StatusTooManyRequests, test.want, "Retry-After: *", "Cache-Control: no-store")
			caddytest.CheckQuota(t, a, 1, 0)
		})
	}
}

// TestDenial_limitInErrorRoutes has error routes with limits of their own.
func TestDenial_limitInErrorRoutes(t *testing.T) {
	n := caddytest.WithoutRedis(t, "", `handle_errors 404 {
		redis_ratelimit /limited same 2 24h { name e404 }
		redis_ratelimit /closed same 2 24h { name closed; fail_mode closed }
		redis_ratelimit /empty {header.X-Key} 2 24h { name empty; on_empty_key reject }
		respond "not here"
	}
	error 404`)
	for left := int64(1); left >= 0; left-- {
		caddytest.CheckQuota(t, n.Get(t, "/limited").Want(t, http.StatusNotFound, "not here"), 2, left) // the error route's answer
	}
	caddytest.CheckQuota(t, caddytest.CheckRefusal(t, n.Get(t, "/limited"), http.StatusTooManyRequests).Want(t, 0, deniedText), 2, 0)
	caddytest.CheckRefusal(t, n.Get(t, "/closed"), http.StatusServiceUnavailable).Want(t, 0, unavailableText)
	n.Get(t, "/empty").Want(t, http.StatusBadRequest, incompleteText)
	assert.Equal(t, n.Log.Lines(func(l caddytest.LogLine) bool { return l.Level == "error" }), nil, "the log of errors")
}

// TestDenial_cachedHeaders has one of two policies deny from the deny cache. The other one is not decided
// then, and only its limit is shown.
func TestDenial_cachedHeaders(t *testing.T) {
	n, _ := caddytest.OnRedis(t, "timeout 10s", `redis_ratelimit {
		policy small { limit 2; window 24h }
		policy large { limit 100; window 24h }
		headers x_ratelimit ietf
	}`+caddytest.ShowDecision)
	n.GetTimes(t, 2, "/")
	for _, want := range []struct{ body, fields string }{
		{"denied redis", `"small";r=0;t=T, "large";r=98;t=T`},
		{"denied deny_cache", `"small";r=0;t=T`},
	} {
		a := n.GetUntil(t, "/", want.body)
		a.Want(t, 0, want.body, `RateLimit-Policy: "small";q=2;w=86400, "large";q=100;w=86400`)
		fields := regexp.MustCompile(`t=\d+`).ReplaceAllString(a.Header.Get("RateLimit"), "t=T")
		assert.Equal(t, fields, want.fields, "RateLimit")
		caddytest.CheckQuota(t, a, 2, 0)
	}
}
