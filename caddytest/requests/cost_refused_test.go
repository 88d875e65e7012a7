package requests

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// around are policies around what refuses a request: a weight, estimates with a cost, a cost alone, and what counts by
// outcome.
var around = []struct{ name, options string }{
	{"plain", "weight 5"},
	{"fixed", "weight 1000; cost json usage.total_tokens 70"},
	{"llm", "weight llm 1000; cost llm 1000"},
	{"single", "cost json usage.total_tokens 70"},
	{"failures", "count_if status 4xx"},
	{"successes", "count_if status 2xx"},
	{"counted", "weight 1000; count_if status 2xx; cost json usage.total_tokens 70"},
	{"bytes", "cost response_bytes"},
}

// costs are what the policies of around charge for a request.
type costs [8]int64

// refusedCosts is what a request costs that is refused further in, by its status. Where the place of a name has none, it
// takes nothing.
func refusedCosts(status int) costs {
	if status/100 == 4 {
		return costs{5, 0, 0, 1, 1, 0, 0, 1}
	}
	return costs{5, 0, 0, 1, 0, 0, 0, 1}
}

// directiveAround is a directive of the policies of around, for paths, with more options.
func directiveAround(paths, more string, without ...string) string {
	text := "redis_ratelimit " + paths + " {\n"
	for _, p := range around {
		if !strings.Contains(strings.Join(without, " "), p.name) {
			text += "policy " + p.name + " { key {query.k}; limit 100000; window 400d; algorithm fixed_window; " + p.options + "; " + more + " }\n"
		}
	}
	return text + "}\n"
}

// checkCosts waits until the policies of around have charged a key what is wanted. What the last request of the client's
// connection leaves to its end is settled before the next one.
func checkCosts(t *testing.T, n *caddytest.Node, key string, want costs) {
	t.Helper()
	n.Get(t, "/next?k=next")
	for i, p := range around {
		var seen int64
		assert.Retry(t, key+": "+p.name, func() (bool, any) {
			state := n.Ask(t, http.MethodPost, "state", `{"policy":"`+p.name+`","key":"`+key+`"}`) // also while Redis fails
			seen = 100_000 - caddytest.ParseJSON[struct{ Remaining int64 }](t, state).Remaining
			return seen != want[i], fmt.Sprintf("%d units are charged, want %d", seen, want[i])
		})
	}
}

// callBody is a call to a language model, which weighs 502 tokens.
const callBody = `{"max_tokens":500,"prompt":"12345678"}`

// newCalledModel starts a model whose answers have 7 tokens.
func newCalledModel(t *testing.T) string {
	t.Helper()
	return caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Has("forbidden") {
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = io.WriteString(w, `{"usage":{"total_tokens":7}}`)
	})
}

// TestRefused_further has each cause for which this module refuses or answers a request further in, and others that reach no
// backend, in policies around it.
func TestRefused_further(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		upstream := caddytest.NewHolder(t)
		n := caddytest.Start(t, caddytest.Config(option, `route {
			`+directiveAround("*", "")+`
			redis_ratelimit /denied same 1 400d { name denied }
			redis_ratelimit /waits { policy waits { key same; max_concurrent 1; wait 20ms } }
			redis_ratelimit /full { policy full { key same; max_concurrent 1; wait 10m 1 } }
			redis_ratelimit /left { policy left { key same; max_concurrent 1; wait 10m } }
			redis_ratelimit /rejected { name rejected; key {header.X-None}; limit 9; window 400d; on_empty_key reject }
			redis_ratelimit /read { name read; key {json.user}; limit 9; window 400d; on_empty_key reject; body 64B }
			redis_ratelimit /usage { name asked; key {query.k}; limit 9; window 400d; usage /usage }
			redis_ratelimit /ticket { name challenged; key {client_ip}; limit 9; window 400d; challenge }
			@fails expression `+"`{http.request.uri.path} == '/fails'`"+`
			redis_ratelimit @fails { policy fails { key {query.k}; limit 9; window 400d; match expression `+"`int({http.request.uri.query.n}) > 1`"+` } }
			respond /forbidden 403
			error /error 404
			basic_auth /auth { alice $2a$04$ZdZs1NQ4eEe3..irYwiyBeqP0sljyl6ck1RB8mCBUlOrgQ23JTVnW }
			@file path /file.txt
			file_server @file
			request_body /limited { max_size 10B }
			reverse_proxy /limited `+newCalledModel(t)+`
			reverse_proxy /dead 127.0.0.1:1
			@holds path /waits /full /left
			reverse_proxy @holds `+upstream.Addr+`
			reverse_proxy `+newCalledModel(t)+`
		}`))
		for _, path := range []string{"/waits", "/full", "/left"} {
			upstream.Begin(t, n, path+"?k=runs")
		}
		n.Hold(t, "/full?k=waits") // as many as may
		n.CheckMetric(t, "held_requests", 1)
		n.Get(t, "/denied?k=first")
		for key, test := range map[string]struct {
			method, path, body, contentType string
			status                          int
			want                            costs
		}{
			"answered":           {"POST", "/", callBody, "application/json", 200, costs{5, 7, 7, 7, 0, 1, 7, 28}},
			"forbidden-by-model": {"POST", "/?forbidden&", callBody, "application/json", 403, costs{5, 7, 7, 7, 1, 0, 0, 28}},
			"denied":             {"POST", "/denied", callBody, "application/json", 429, refusedCosts(429)},
			"waited-in-vain":     {"POST", "/waits", callBody, "application/json", 429, refusedCosts(429)},
			"full":               {"POST", "/full", callBody, "application/json", 429, refusedCosts(429)},
			"rejected":           {"POST", "/rejected", callBody, "application/json", 400, refusedCosts(400)},
			"too-large":          {"POST", "/read", callBody + strings.Repeat(" ", 64), "application/json", 413, refusedCosts(413)},
			"another-type":       {"POST", "/read", callBody, "text/plain", 415, refusedCosts(415)},
			"usage":              {"GET", "/usage", "", "", 200, costs{5, 0, 0, 1, 0, 1, 0, 1}},
			"ticket":             {"GET", "/ticket", "", "", 302, costs{5, 0, 0, 1, 0, 0, 0, 1}},
			"matcher":            {"GET", "/fails", "", "", 500, costs{5, 0, 0, 1, 0, 0, 0, 1}},

			"forbidden":    {"POST", "/forbidden", callBody, "application/json", 403, costs{5, 0, 0, 1, 1, 0, 0, 1}},
			"error":        {"POST", "/error", callBody, "application/json", 404, costs{5, 0, 0, 1, 1, 0, 0, 1}},
			"no-password":  {"POST", "/auth", callBody, "application/json", 401, costs{5, 0, 0, 1, 1, 0, 0, 1}},
			"no-file":      {"GET", "/file.txt", "", "", 404, costs{5, 0, 0, 1, 1, 0, 0, 1}},
			"request-body": {"POST", "/limited", callBody, "application/json", 413, costs{5, 0, 0, 1, 1, 0, 0, 1}},
			"no-backend":   {"POST", "/dead", callBody, "application/json", 502, costs{5, 0, 0, 1, 0, 0, 0, 1}},
		} {
			path, query := test.path, "?"
			if strings.Contains(path, "?") {
				query = ""
			}
			if key == "ticket" {
				path, query = path+"?k=ticket&rl-pass=none", ""
			} else {
				query += "k=" + key
			}
			n.Send(t, test.method, n.URL+path+query, test.body, "Content-Type: "+test.contentType).Want(t, test.status, caddytest.Any)
			checkCosts(t, n, key, test.want)
		}
		waits := n.Hold(t, "/left?k=left")
		n.CheckMetric(t, "held_requests", 2)
		waits.Leave()
		checkCosts(t, n, "left", refusedCosts(499))
		n.CheckMetric(t, `wait_seconds_count{outcome="left",policy="left"}`, 1)
	})
}

// TestRefused_undecided has the store of a limit further in fail.
func TestRefused_undecided(t *testing.T) {
	n := caddytest.WithoutRedis(t, "", "route {\n"+directiveAround("*", "")+`
		redis_ratelimit /closed { name closed; limit 1; window 400d; fail_mode closed }
		reverse_proxy `+newCalledModel(t)+`
	}`)
	n.Send(t, http.MethodPost, n.URL+"/closed?k=closed", callBody, "Content-Type: application/json").Want(t, http.StatusServiceUnavailable, caddytest.Any)
	checkCosts(t, n, "closed", refusedCosts(503))
}

// TestRefused_late has a request whose body does not arrive in time for a limit further in.
func TestRefused_late(t *testing.T) {
	n := caddytest.InProcess(t, "route {\n"+directiveAround("/late", "", "llm")+directiveAround("/next", "")+`
		redis_ratelimit /late { name late; key {json.user}; limit 1; window 400d; body 1MiB 20ms }
		reverse_proxy `+newCalledModel(t)+`
	}`)
	conn := assert.NoError(net.Dial("tcp", strings.TrimPrefix(n.URL, "http://")))(t)
	defer conn.Close() //nolint:errcheck // the answer has come
	_, err := io.WriteString(conn, "POST /late?k=late HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n")
	assert.Must(t, err)
	status := make([]byte, len("HTTP/1.1 408"))
	_, err = io.ReadFull(conn, status)
	assert.Must(t, err)
	assert.Equal(t, string(status), "HTTP/1.1 408", "the answer")
	checkCosts(t, n, "late", refusedCosts(408))
}

// TestRefused_dryRun settles dry runs as what is enforced, also those of the directive that refuses.
func TestRefused_dryRun(t *testing.T) {
	caddytest.OnEachStore(t, "route {\n"+directiveAround("*", "dry_run")+`
		redis_ratelimit /denied {
			policy denied { key same; limit 1; window 400d }
			policy beside { key {query.k}; limit 100000; window 400d; algorithm fixed_window; weight 1000; cost json usage.total_tokens 70; dry_run }
		}
		reverse_proxy `+newCalledModel(t)+`
	}`, func(t *testing.T, n *caddytest.Node, _ string) {
		n.Get(t, "/denied?k=first").Want(t, http.StatusOK, caddytest.Any)
		n.Send(t, http.MethodPost, n.URL+"/denied?k=denied", callBody, "Content-Type: application/json").Want(t, http.StatusTooManyRequests, caddytest.Any)
		checkCosts(t, n, "denied", refusedCosts(429))
		n.WaitForRefund(t, "beside", "first", 100_000-7)
		n.WaitForRefund(t, "beside", "denied", 100_000)
	})
}

// TestRefused_answered has a backend answer before this module refuses, or handlers answer in place of the refusal. An
// estimate stays unless the answer tells the cost.
func TestRefused_answered(t *testing.T) {
	const denied = "redis_ratelimit same 1 400d { name denied }\n"
	n, model := caddytest.InProcess(t, "respond old"), newCalledModel(t)
	for name, test := range map[string]struct {
		inside string
		status int
		want   costs
	}{
		"forward-auth": {"forward_auth STATUSES { uri /200 }\n" + denied + "reverse_proxy MODEL", 429, costs{5, 1000, 502, 1, 1, 0, 0, 1}},
		"model-first": {"reverse_proxy MODEL {\nhandle_response {\n" + denied + "copy_response\n}\n}", 429,
			costs{5, 1000, 502, 1, 1, 0, 0, 1}},
		"intercepted": {"intercept {\nhandle_response {\n" + denied + "}\n}\nrespond ok 418", 429, costs{5, 1000, 502, 1, 1, 0, 0, 1}},
		"asks-another": {"intercept {\n@refused status 429\nhandle_response @refused {\nreverse_proxy MODEL\n}\n}\n" + denied + "reverse_proxy MODEL",
			200, costs{5, 7, 7, 7, 0, 1, 7, 28}},
		"another-page": {"intercept {\n@refused status 429\nhandle_response @refused {\nrespond sorry 503\n}\n}\n" + denied + "reverse_proxy MODEL",
			503, costs{5, 1000, 502, 1, 0, 0, 0, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			inside := strings.NewReplacer("MODEL", model, "STATUSES", statusUpstream(t)).Replace(test.inside)
			n.Reload(t, caddytest.Config("", "route {\n"+directiveAround("*", "")+"route /called {\n"+inside+"\n}\nrespond ok\n}"))
			call := func(key string) caddytest.Response {
				return n.Send(t, http.MethodPost, n.URL+"/called?k="+key, callBody, "Content-Type: application/json")
			}
			call(name + "-first")
			call(name).Want(t, test.status, caddytest.Any)
			checkCosts(t, n, name, test.want)
		})
	}
}

// TestRefused_errorRoutes has the error routes of a subroute answer a refusal, of their own or by another model.
func TestRefused_errorRoutes(t *testing.T) {
	n, model := caddytest.InProcess(t, "respond old"), newCalledModel(t)
	proxy := `{"handler": "reverse_proxy", "upstreams": [{"dial": "` + model + `"}]}`
	const denies = `{"handler": "redis_ratelimit", "policies": [{"name": "denied", "key": "same", "limit": 1, "window": "24h"}]}`
	for name, test := range map[string]struct {
		answer string
		status int
		cost   int64
	}{
		"a page":        {`{"handler": "static_response", "body": "refused"}`, 429, 1000},
		"another model": {proxy, 200, 7},
		"one that ends": {`{"handler": "static_response", "abort": true}`, 0, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			site := nested{refusing: denies + `, ` + proxy, subroute: `, "errors": {"routes": [{"handle": [` + test.answer + `]}]}`}
			outer := `"policies": [{"name": "tokens", "key": "{http.request.uri.query.k}", "limit": 100000, "window": "24h", "weight": 1000, ` +
				`"cost_from": "json usage.total_tokens", "cost": 70}]`
			config := strings.Replace(site.config(n), `"policies": [{"name": "", "key": "same", "limit": 9, "window": "24h", "algorithm": "gcra", "count_if": {"status_code": []}}]`, outer, 1)
			n.Load(t, config, "Content-Type: application/json").Want(t, http.StatusOK, caddytest.Any)
			key := strings.ReplaceAll(name, " ", "-")
			n.Get(t, "/?k="+key+"-first")
			a, err := n.Try(http.MethodPost, n.URL+"/?k="+key, "")
			assert.ErrorIf(t, test.status != 0 && (err != nil || a.Status != test.status), "got %v, %v, want the status %d", a, err, test.status)
			n.WaitForRefund(t, "tokens", key, 100_000-test.cost)
		})
	}
}

// TestRefused_whole has a client whose whole budget is held by a call that waits in vain. The next one passes.
func TestRefused_whole(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		upstream := caddytest.NewHolder(t)
		n := caddytest.Start(t, caddytest.Config(option, `route {
			redis_ratelimit { policy tokens { key {query.k}; limit 1000; window 400d; weight 1000; cost {http.reverse_proxy.header.X-Tokens-Used} 70 } }
			redis_ratelimit { policy places { key places; max_concurrent 1; wait 20ms } }
			reverse_proxy `+upstream.Addr+`
		}`))
		upstream.Begin(t, n, "/?k=runs")
		for range 3 {
			a := n.Get(t, "/quick?k=a").Want(t, http.StatusTooManyRequests, caddytest.Any, "Retry-After: 1")
			assert.ErrorIf(t, a.Took.Milliseconds() < 20, "refused at once: %v", a)
			n.WaitForRefund(t, "tokens", "a", 1000)
		}
		upstream.EndOne()
		n.CheckMetric(t, `running{policy="places"}`, 0)
		n.WaitForRefund(t, "places", "places", 1) // which Redis learns later
		caddytest.CheckQuota(t, n.Get(t, "/quick?k=a&tokens=400").Want(t, http.StatusOK, caddytest.Any), 1000, 0)
		n.WaitForRefund(t, "tokens", "a", 600)
	})
}

// TestRefused_exit ends Caddy while a call waits. Another node has its estimate back.
func TestRefused_exit(t *testing.T) {
	t.Parallel()
	upstream := caddytest.NewHolder(t)
	config := caddytest.Config(caddytest.SharedRedis(t), `route {
		redis_ratelimit { policy tokens { key {query.k}; limit 1000; window 400d; weight 400; cost {http.reverse_proxy.header.X-Tokens-Used} 70 } }
		redis_ratelimit { policy places { key places; max_concurrent 1; wait 10m } }
		reverse_proxy `+upstream.Addr+`
	}`)
	other, tries := caddytest.Start(t, config), 0
	assert.Retry(t, "the call that waits is refused", func() (again bool, seen any) { // within a second, after which Caddy cuts it
		tries++
		n, key := caddytest.Start(t, config), fmt.Sprint("waits", tries)
		runs := upstream.Begin(t, n, "/?k=runs")
		waits := n.Hold(t, "/quick?k="+key)
		n.CheckMetric(t, "held_requests", 1)
		other.WaitForRefund(t, "tokens", key, 600)
		assert.Must(t, n.Command.Process.Signal(syscall.SIGTERM))
		<-waits.Ended
		if waits.Status == 0 {
			<-runs.Ended
			upstream.WaitRunning(t, 0)
			return true, "no answer"
		}
		assert.Equal(t, waits.Status, http.StatusServiceUnavailable, "the status of the call that waits")
		other.WaitForRefund(t, "tokens", key, 1000)
		return false, nil
	})
}

// TestRefused_versions has refusals by each version of HTTP show that the estimate is given back.
func TestRefused_versions(t *testing.T) {
	t.Parallel()
	n := startVersions(t, "", `route {
		redis_ratelimit { policy tokens { key {query.k}; limit 1000; window 400d; algorithm fixed_window; weight 900; cost json usage.total_tokens 70 } }
		redis_ratelimit { policy denied { key {query.k}; limit 1; window 400d }; headers off }
		respond ok
	}`)
	for name, speaker := range speakers(t) {
		t.Run(name, func(t *testing.T) {
			key := strings.ReplaceAll(name, " ", "")
			ask(t, speaker, n.url(name)+"/?k="+key).Want(t, http.StatusOK, "ok", "X-Ratelimit-Remaining: 100")
			n.WaitForRefund(t, "tokens", key, 930)
			ask(t, speaker, n.url(name)+"/?k="+key).Want(t, http.StatusTooManyRequests, caddytest.Any, "X-Ratelimit-Limit: 1000", "X-Ratelimit-Remaining: 930")
			n.WaitForRefund(t, "tokens", key, 930)
		})
	}
}

// TestRefused_notify has no event of an estimate that is given back.
func TestRefused_notify(t *testing.T) {
	n := caddytest.InProcess(t, `route {
		redis_ratelimit { policy tokens { key {query.k}; limit 1000; window 400d; algorithm fixed_window; weight 900; cost {http.reverse_proxy.header.X-Tokens-Used} 70; notify 20% 80% } }
		redis_ratelimit /denied same 1 400d { name denied }
		reverse_proxy `+newModel(t).addr+`
	}`)
	n.Get(t, "/denied?k=first&tokens=10").Want(t, http.StatusOK, caddytest.Any)
	for range 3 {
		n.Get(t, "/denied?k=a").Want(t, http.StatusTooManyRequests, caddytest.Any)
	}
	n.Get(t, "/?k=a&tokens=300").Want(t, http.StatusOK, caddytest.Any)
	waitForThresholds(t, n, 20)
	n.CheckMetric(t, `settled_units_total{direction="refunded",policy="tokens"}`, 890+3*900+600)
}
