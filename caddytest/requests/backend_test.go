package requests

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// guarded counts wrong passwords and tokens of what is behind it.
const guarded = `redis_ratelimit {
	policy attempts { key {query.k}; limit 5; window 400d; algorithm fixed_window; count_if status 401 }
	policy tokens { key {query.k}; limit 1000; window 400d; algorithm fixed_window; weight 100; cost json usage.total_tokens 70 }
}
`

// asksFirst has a backend say yes before what is behind it.
const asksFirst = "forward_auth STATUSES {\nuri /200\n}\n"

// triesAgainAt has a proxy try again at a status.
func triesAgainAt(status string) string {
	return "lb_retry_match {\nexpression `{rp.status_code} == " + status + "`\n}\n"
}

// backends stand in sites for their addresses: one where nothing listens, one that breaks off requests with break in
// their query, one whose paths are statuses, and one that never answers.
func backends(t *testing.T) *strings.Replacer {
	t.Helper()
	return strings.NewReplacer("DEAD", redistest.FreeAddr(t), "BREAKER", newModel(t).addr,
		"STATUSES", statusUpstream(t), "SILENT", caddytest.NewHolder(t).Addr)
}

// response is a request with what became of it: how many attempts it counts as, and how many tokens it costs.
type response struct {
	site, method, path string
	status             int
	attempts, tokens   int64
}

// check sends the request twice to a Caddy that runs its site.
func (r *response) check(t *testing.T, n *caddytest.Node, name string) {
	t.Helper()
	key := strings.ReplaceAll(name, " ", "-")
	for range 2 {
		a, err := n.Try(r.method, n.URL+r.path+"?break=before&k="+key, "")
		assert.Must(t, err)
		a.Want(t, r.status, caddytest.Any)
	}
	n.WaitForRefund(t, "attempts", key, 5-2*r.attempts)
	n.WaitForRefund(t, "tokens", key, 1000-2*r.tokens)
}

// TestBackend_unreached has requests that reach no backend. They are judged by the status, and cost nothing.
func TestBackend_unreached(t *testing.T) {
	n := caddytest.InProcess(t, "respond old")
	for name, test := range map[string]response{
		"dead":                     {guarded + "reverse_proxy DEAD", "POST", "/", 502, 0, 0},
		"dead, read":               {guarded + "reverse_proxy DEAD", "GET", "/", 502, 0, 0},
		"dead, in handle":          {guarded + "handle /* {\nhandle {\nreverse_proxy DEAD\n}\n}", "GET", "/", 502, 0, 0},
		"dead, over a socket":      {guarded + "reverse_proxy unix//nowhere", "POST", "/", 502, 0, 0},
		"dead, over TLS":           {guarded + "reverse_proxy https://DEAD", "POST", "/", 502, 0, 0},
		"dead, without encryption": {guarded + "reverse_proxy h2c://DEAD", "POST", "/", 502, 0, 0},
		"dead, of PHP":             {guarded + "php_fastcgi DEAD", "POST", "/login.php", 502, 0, 0},
		"dead, an error page":      {guarded + "reverse_proxy DEAD\nhandle_errors {\nrespond sorry 200\n}", "POST", "/", 200, 0, 0},
		"dead, another backend's error page": {guarded + "reverse_proxy DEAD\nhandle_errors {\nrewrite /200\nreverse_proxy STATUSES\n}",
			"POST", "/", 200, 0, 0},
		"all dead, tried again": {guarded + "reverse_proxy DEAD DEAD {\nlb_retries 2\n}", "POST", "/", 502, 0, 0},
		"dead, tried for a while": {guarded + "reverse_proxy DEAD {\nlb_try_duration 50ms\nlb_try_interval 10ms\n}",
			"POST", "/", 502, 0, 0},
		"no upstream": {guarded + "reverse_proxy", "POST", "/", 503, 0, 0},
		"no upstream, tried again": {guarded + "reverse_proxy {\nlb_retries 2\nlb_retry_match method POST\n}",
			"POST", "/", 503, 0, 0},
		"dead behind forward_auth": {"route {\n" + asksFirst + guarded + "reverse_proxy DEAD\n}",
			"POST", "/", 502, 0, 0},
		"tried again beside forward_auth": {"handle /auth {\n" + asksFirst + "}\n" + guarded + "reverse_proxy DEAD {\nlb_retries 1\n}",
			"POST", "/", 502, 0, 0},

		"the error handler":           {guarded + "error 500", "POST", "/", 500, 0, 0},
		"the error handler counts":    {guarded + "error 401", "POST", "/", 401, 1, 0},
		"the error handler, in route": {guarded + "route {\nerror \"closed\" 503\n}", "GET", "/", 503, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			n.Reload(t, caddytest.Config("", backends(t).Replace(test.site)))
			test.check(t, n, name)
		})
	}
}

// TestBackend_reached has requests that a backend has seen, or may have seen: a log-in that stalls or breaks off on
// wrong passwords is not free to try.
func TestBackend_reached(t *testing.T) {
	const breaksThenDead = "reverse_proxy BREAKER DEAD {\nlb_policy first\nfail_duration 1m\nlb_retries 1\n"
	n := caddytest.InProcess(t, "respond old")
	for name, test := range map[string]response{
		"it breaks": {guarded + "reverse_proxy BREAKER", "POST", "/", 502, 1, 100},
		"it stalls": {guarded + "reverse_proxy SILENT {\ntransport http {\nresponse_header_timeout 20ms\n}\n}",
			"POST", "/", 504, 1, 100},
		"it is no server of TLS": {guarded + "reverse_proxy https://STATUSES", "POST", "/", 502, 1, 100},
		"PHP breaks":             {guarded + "php_fastcgi STATUSES", "POST", "/login.php", 502, 1, 100},
		"one of the tries may have reached it": {guarded + "reverse_proxy DEAD {\nlb_retries 1\n}",
			"GET", "/", 502, 1, 100},
		"it answers first, and routes for responses lead to a dead one": {guarded + `reverse_proxy STATUSES {
			@wrong status 401
			handle_response @wrong {
				reverse_proxy DEAD
			}
		}`, "POST", "/401", 502, 1, 100},
		"it answers first, and another has no upstream": {guarded + `reverse_proxy STATUSES {
			@wrong status 401
			handle_response @wrong {
				reverse_proxy
			}
		}`, "POST", "/401", 503, 1, 100},
		"its answers lead to other tries": {guarded + "reverse_proxy STATUSES {\nlb_retries 1\n" + triesAgainAt("503") + "}",
			"POST", "/503", 503, 1, 100},
		"forward_auth reaches one": {guarded + asksFirst + "reverse_proxy DEAD", "POST", "/", 502, 1, 100},
		"forward_auth before and behind": {"route {\n" + asksFirst + guarded + asksFirst + "reverse_proxy DEAD\n}",
			"POST", "/", 502, 1, 100},
		"it answers first, and intercept leads to a dead one": {guarded + `intercept {
			@wrong status 401
			handle_response @wrong {
				reverse_proxy DEAD
			}
		}
		respond 401`, "POST", "/", 502, 1, 100},
		"an error page is dead": {guarded + "reverse_proxy BREAKER\nhandle_errors {\nreverse_proxy DEAD\n}", "POST", "/", 502, 1, 100},
	} {
		t.Run(name, func(t *testing.T) {
			n.Reload(t, caddytest.Config("", backends(t).Replace(test.site)))
			test.check(t, n, name)
		})
	}
	for name, test := range map[string]response{
		"it breaks, another is dead": {guarded + breaksThenDead + "}", "GET", "/", 502, 1, 100},
		"it breaks, another is dead, by lb_retry_match": {guarded + breaksThenDead + "lb_retry_match method POST\n}",
			"POST", "/", 502, 1, 100},
		"it breaks, another is dead, sent as GET":      {guarded + breaksThenDead + "method GET\n}", "POST", "/", 502, 1, 100},
		"it breaks, another is dead, rewritten to GET": {guarded + "method GET\n" + breaksThenDead + "}", "POST", "/", 502, 1, 100},
		"it answers 401, another is dead, by lb_retry_match": {guarded + "reverse_proxy STATUSES DEAD {\nlb_policy first\n" +
			"fail_duration 1m\nunhealthy_status 401\nlb_retries 1\n" + triesAgainAt("401") + "}", "POST", "/401", 502, 1, 100},
	} {
		t.Run(name, func(t *testing.T) { // the second request finds the first backend marked as down, and has a key of its own
			n.Reload(t, caddytest.Config("", backends(t).Replace(test.site)))
			key := strings.ReplaceAll(name, " ", "-")
			n.Send(t, test.method, n.URL+test.path+"?break=before&k="+key, "").Want(t, test.status, caddytest.Any)
			n.WaitForRefund(t, "attempts", key, 5-test.attempts)
			n.WaitForRefund(t, "tokens", key, 1000-test.tokens)
		})
	}
}

// TestBackend_subroute has a subroute whose error routes lead to a dead backend, after one that breaks or is dead too.
func TestBackend_subroute(t *testing.T) {
	n := caddytest.InProcess(t, "respond old")
	proxy := func(address string) string {
		return `{"handle": [{"handler": "reverse_proxy", "upstreams": [{"dial": "` + address + `"}]}]}`
	}
	dead := proxy(redistest.FreeAddr(t))
	for name, first := range map[string]string{"breaks": newModel(t).addr, "dead": redistest.FreeAddr(t)} {
		s := nested{name: "subroute-" + name, countIf: "401"}
		s.refusing = `{"handler": "subroute", "routes": [` + proxy(first) + `], "errors": {"routes": [` + dead + `]}}`
		n.Load(t, s.config(n), "Content-Type: application/json").Want(t, http.StatusOK, caddytest.Any)
		n.Get(t, "/?break=before").Want(t, http.StatusBadGateway, caddytest.Any)
		n.WaitForRefund(t, s.name, "same", 8) // it may have reached the first, which the error routes do not show
	}
}

// TestBackend_refuses has a backend that refuses calls, with and without a cost.
func TestBackend_refuses(t *testing.T) {
	upstream := caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		status, query := http.StatusOK, r.URL.Query()
		_, _ = fmt.Sscan(query.Get("status"), &status) // it is a number
		w.Header().Set("Content-Type", "application/json")
		if query.Get("cut") != "" {
			w.Header().Set("Content-Length", "1000")
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, query.Get("body"))
	})
	bodies := map[string]struct {
		body   string
		tokens int64
	}{"untold": {`{"error":{"type":"overloaded"}}`, 0}, "told": {`{"error":{},"usage":{"total_tokens":12}}`, 12}, "empty": {"", 0}}
	caddytest.OnEachStore(t, guarded+"reverse_proxy "+upstream, func(t *testing.T, n *caddytest.Node, _ string) {
		for name, test := range bodies {
			for _, status := range []int{400, 401, 403, 404, 429, 500, 502, 503, 529} {
				attempts, key := int64(0), fmt.Sprint(name, status)
				if status == http.StatusUnauthorized {
					attempts = 1
				}
				for range 2 {
					n.Get(t, fmt.Sprintf("/?k=%s&status=%d&body=%s", key, status, test.body)).Want(t, status, test.body)
				}
				n.WaitForRefund(t, "attempts", key, 5-2*attempts)
				n.WaitForRefund(t, "tokens", key, 1000-2*test.tokens)
			}
		}
		_, err := n.Try(http.MethodGet, n.URL+`/?cut=1&status=500&k=cut&body={"error":{}`, "")
		assert.ErrorIf(t, err == nil, "the body of a response that breaks off has an end")
		n.WaitForRefund(t, "attempts", "cut", 5)
		n.WaitForRefund(t, "tokens", "cut", 900)
		n.CheckMetric(t, `invalid_values_total{option="cost",policy="tokens"}`, 0) // no configuration is wrong
	})
}
