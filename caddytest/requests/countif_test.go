package requests

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// logIn is a site whose path is the status of the log-in, with a backend that breaks off.
func logIn(algorithm, breaker string) string {
	return `redis_ratelimit {query.k} 5 400d { algorithm ` + algorithm + `; count_if status 401 403 }
	@ok path /200
	respond @ok "welcome"
	@bad path /401
	respond @bad 401
	error /error 403
	error /closed 503
	handle /broken {
		reverse_proxy ` + breaker + `
	}
	respond 404`
}

func TestCountIf_statuses(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		n, breaker := caddytest.Start(t, caddytest.Config("", "")), newModel(t).addr
		for _, algorithm := range []string{"sliding_window_counter", "sliding_window_log", "fixed_window", "token_bucket", "leaky_bucket", "gcra"} {
			n.Reload(t, caddytest.Config(option, logIn(algorithm, breaker)))
			expect := func(path string, remaining int64) {
				t.Helper()
				a := n.Get(t, path+"?break=before&k="+algorithm)
				assert.Equal(t, a.Header.Get("X-Ratelimit-Remaining"), fmt.Sprint(remaining), "%s, %s: what remains", algorithm, path)
				n.WaitForRefund(t, "default", algorithm, remaining)
			}
			for range 20 {
				expect("/200", 5)
			}
			for i, path := range []string{"/401", "/error", "/404", "/closed", "/401", "/broken"} {
				expect(path, []int64{4, 3, 3, 3, 2, 1}[i])
			}
			n.Get(t, "/401?k="+algorithm)
			n.Get(t, "/200?k="+algorithm).Want(t, http.StatusTooManyRequests, caddytest.Any) // even the right password refused
		}
	})
}

// TestCountIf_concurrent tries many passwords at once.
func TestCountIf_concurrent(t *testing.T) {
	caddytest.OnEachStore(t, logIn("sliding_window_log", newModel(t).addr), func(t *testing.T, n *caddytest.Node, _ string) {
		tried := 0
		for _, a := range n.Crowd(t, 100, "/401?k=crowd") {
			if a.Status == http.StatusUnauthorized {
				tried++
			}
		}
		assert.ErrorIf(t, tried != 5, "%d passwords were tried, want 5", tried)
	})
}

// TestCountIf_aborted has an upstream that never responds in time, one that breaks, and one that streams.
func TestCountIf_aborted(t *testing.T) {
	t.Parallel()
	ctx, leave := context.WithCancel(t.Context())
	t.Cleanup(leave)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	slow := caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stream" {
			for range 3 {
				fmt.Fprint(w, "part ")
				_ = http.NewResponseController(w).Flush() // it is supported
			}
			return
		}
		leave()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	n := caddytest.Start(t, caddytest.Config("", `redis_ratelimit same 5 400d { algorithm fixed_window; count_if status 401 }
	reverse_proxy /breaks `+newModel(t).addr+`
	reverse_proxy `+slow))
	n.Get(t, "/stream").Want(t, 0, "part part part ", "X-Ratelimit-Remaining: 5")                              // given back at the first part
	n.Get(t, "/breaks?break=before").Want(t, http.StatusBadGateway, caddytest.Any, "X-Ratelimit-Remaining: 4") // counted
	request := caddytest.GetRequest(ctx, t, n.URL+"/slow")
	if response, err := n.Client.Do(request); err == nil {
		_ = response.Body.Close()
		t.Fatal("the slow upstream answered")
	}
	n.Await(t, "/stream", 0, caddytest.Any, "X-Ratelimit-Remaining: 3")
}

// TestCountIf_outerHandlers has outer handlers that replace the response after count_if has matched.
func TestCountIf_outerHandlers(t *testing.T) {
	caddytest.OnEachStore(t, `route {
		redis_ratelimit same 1000 24h { name all }
		intercept {
			@bad status 401
			handle_response @bad { respond 200 }
		}
		redis_ratelimit same 3 24h { name logins; count_if status 401 }
		redis_ratelimit same 500 24h { name between }
		reverse_proxy `+statusUpstream(t)+`
	}`, func(t *testing.T, n *caddytest.Node, _ string) {
		for i := range int64(5) {
			caddytest.CheckQuota(t, n.Get(t, "/200"), 500, 499-i) // the binding policy where the log-ins are refunded
			n.WaitForRefund(t, "logins", "same", 3)
		}
		for left := int64(2); left >= 0; left-- {
			caddytest.CheckQuota(t, n.Get(t, "/401").Want(t, http.StatusOK, caddytest.Any), 3, left) // the status that is answered instead
		}
		caddytest.CheckRefusal(t, n.Get(t, "/401"), http.StatusTooManyRequests)
	})
}

// statusUpstream starts a server whose paths are the statuses of its responses.
func statusUpstream(t *testing.T) string {
	return caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusNotFound
		_, _ = fmt.Sscan(strings.TrimPrefix(r.URL.Path, "/"), &status) // other paths get 404
		w.WriteHeader(status)
	})
}

// errorRoutes may surround a handler that denies: error routes of the server, and of its subroute.
var errorRoutes = map[string]struct{ server, subroute, options string }{
	"none":            {},
	"unrelated":       {server: unrelated},
	"matching":        {server: matching},
	"subroute":        {subroute: matching},
	"both":            {server: unrelated, subroute: matching},
	"problem_details": {options: `, "answer": "problem"`},
	"with_unrelated":  {server: unrelated, options: `, "answer": "problem"`},
}

const (
	unrelated = `, "errors": {"routes": [{"match": [{"expression": "{http.error.status_code} == 404"}], "handle": [{"handler": "static_response", "body": "lost"}]}]}`
	matching  = `, "errors": {"routes": [{"handle": [{"handler": "static_response", "body": "refused"}]}]}`
)

// nested returns a site whose outer handler counts by the response of an inner one, which refuses.
type nested struct {
	redis, name, countIf, options, refusing, subroute, server string
}

func (s *nested) config(n *caddytest.Node) string {
	outer := fmt.Sprintf(`{"handler": "redis_ratelimit", "policies": [{"name": %q, "key": "same", "limit": 9, "window": "24h", "algorithm": "gcra", "count_if": {"status_code": [%s]}%s}]}`, s.name, s.countIf, s.options)
	inner := `{"handler": "subroute", "routes": [{"handle": [` + s.refusing + `]}]` + s.subroute + `}`
	return `{"admin": {"listen": "` + strings.TrimPrefix(n.Admin, "http://") + `"}, "apps": {` + s.redis + `"http": {"grace_period": "1s", "servers": {"s": {"listen": ["` +
		strings.TrimPrefix(n.URL, "http://") + `"], "automatic_https": {"disable": true}, "routes": [{"handle": [` + outer + `, ` + inner + `]}]` + s.server + `}}}}}`
}

// used returns how many units of the outer policy three refused requests have used.
func (s *nested) used(t *testing.T, n *caddytest.Node, status int, headers ...string) int64 {
	t.Helper()
	n.Load(t, s.config(n), "Content-Type: application/json").Want(t, http.StatusOK, caddytest.Any)
	for range 3 {
		n.Get(t, "", headers...).Want(t, status, caddytest.Any)
	}
	a := n.Ask(t, http.MethodPost, "state", `{"policy":"`+s.name+`","key":"same"}`)
	return 9 - caddytest.ParseJSON[struct{ Remaining int64 }](t, a).Remaining
}

// TestCountIf_innerRefusal has each error route around each refusal, of requests and of calls of gRPC, whose refusals
// have the status 200. This module writes the refusal itself or returns an error.
func TestCountIf_innerRefusal(t *testing.T) {
	n := caddytest.InProcess(t, "respond old")
	away := `"redis_ratelimit": {"redis": {"addresses": ["` + redistest.FreeAddr(t) + `"]}}, `
	for refusal, test := range map[string]struct {
		status       int
		redis, inner string
	}{
		"denied_429":  {429, "", `"status": 429, "policies": [{"name": "inner", "key": "same", "limit": 1, "window": "24h", "weight_from": "{http.vars.heavy}"}]`},
		"denied_503":  {503, "", `"status": 503, "policies": [{"name": "inner", "key": "same", "limit": 1, "window": "24h", "weight_from": "{http.vars.heavy}"}]`},
		"closed_503":  {503, away, `"fail_mode": "closed", "policies": [{"name": "inner", "key": "same", "limit": 1, "window": "24h"}]`},
		"rejects_400": {400, "", `"on_empty_key": "reject", "policies": [{"name": "inner", "key": "{http.vars.none}", "limit": 1, "window": "24h"}]`},
	} {
		for routes, around := range errorRoutes {
			for countIf, options := range map[string]string{"429": "", "401": "", "2": "", "5": `, "dry_run": true`} {
				name := strings.Join([]string{"p", refusal, routes, countIf}, "-")
				t.Run(name, func(t *testing.T) {
					s := nested{
						redis: test.redis, name: name, countIf: countIf, options: options, server: around.server, subroute: around.subroute,
						refusing: `{"handler": "vars", "heavy": "2"}, {"handler": "redis_ratelimit", ` + test.inner + around.options + `}`,
					}
					want := int64(0)
					if strings.HasPrefix(fmt.Sprint(test.status), countIf) {
						want = 3
					}
					assert.Equal(t, s.used(t, n, test.status), want, "the use")
					if routes == "none" || routes == "both" {
						s.name += "-call"
						assert.Equal(t, s.used(t, n, http.StatusOK, "Content-Type: application/grpc"), want, "the use by calls")
					}
				})
			}
		}
	}
}

// TestCountIf_innerError has Caddy's error handler end the request.
func TestCountIf_innerError(t *testing.T) {
	n := caddytest.InProcess(t, "respond old")
	for status, want := range map[int]int64{401: 3, 404: 0, 500: 0} {
		for _, routes := range []string{"none", "unrelated", "matching"} {
			name := fmt.Sprintf("e-%d-%s", status, routes)
			t.Run(name, func(t *testing.T) {
				s := nested{name: name, countIf: "401", server: errorRoutes[routes].server, refusing: fmt.Sprintf(`{"handler": "error", "status_code": %d}`, status)}
				assert.Equal(t, s.used(t, n, status), want, "the use")
			})
		}
	}
}
