package requests

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// echoer starts a backend that answers with the body that it gets, and with the status that the query says.
func echoer(t *testing.T) (address string) {
	t.Helper()
	return caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		status := http.StatusOK
		_, _ = fmt.Sscan(r.URL.Query().Get("status"), &status) // none is 200
		w.WriteHeader(status)
		fmt.Fprintf(w, "%s got %s", r.Method, body)
		if err != nil {
			fmt.Fprint(w, " and ", err)
		}
	})
}

// TestBody_handlers has bodies pass several directives and other handlers that read, bound and repeat them.
func TestBody_handlers(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, text := range map[string]string{
		"page.html": `<{{placeholder "http.redis_ratelimit.json.user"}}> <{{placeholder "http.request.body"}}> {{httpInclude "/part.html"}}`,
		"part.html": `part <{{placeholder "http.redis_ratelimit.json.user"}}>`,
	} {
		assert.Must(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	policy := func(path, name, key, more string) string {
		return "redis_ratelimit " + path + " { name " + name + "; key " + key + "; limit 2; window 24h; " + more + " }\n"
	}
	n := caddytest.Start(t, caddytest.Config("", `root `+root+`
	encode {
		minimum_length 1
	}
	route {
		request_body /bounded* {
			max_size 100
		}
		`+policy("/two*", "first", "{json.user}", "on_empty_key reject")+policy("/two*", "second", "{json.team}", "on_empty_key reject")+
		policy("/two*", "third", "{form.user}", "on_empty_key skip; dry_run")+`
		handle /two/nested* {
			`+policy("/two/nested", "inner", "{json.user}:{json.inner}", "on_empty_key reject")+`
			reverse_proxy `+echoer(t)+`
		}
		`+policy("/bounded*", "bounded", "{json.user}", "on_empty_key reject")+policy("/page.html", "page", "{json.user}", "")+`
		`+policy("/retried", "retried", "{json.user}", "on_empty_key reject")+`
		`+policy("/gone", "gone", "{json.user}", "on_empty_key reject")+`
		reverse_proxy /retried `+redistest.FreeAddr(t)+` `+echoer(t)+` {
			lb_policy first
			lb_retries 2
			fail_duration 1m
		}
		reverse_proxy /gone `+redistest.FreeAddr(t)+`
		reverse_proxy /two* `+echoer(t)+`
		templates /page.html
		method /page.html GET
		file_server /page.html
		file_server /part.html
		respond /bounded* "{http.request.body}"
	}
	handle_errors {
		respond "{err.status_code} {http.request.body}"
	}`))
	bob := `{"user":"bob","team":"red","inner":"x"}`
	post := func(path, text string, status int, body string, headers ...string) {
		n.Send(t, http.MethodPost, n.URL+path, text, ofJSON).Want(t, status, body, headers...)
	}
	post("/two", bob, 200, "POST got "+bob, "X-Ratelimit-Remaining: 1")
	post("/two/nested", bob, 200, "POST got "+bob, "X-Ratelimit-Remaining: 0")
	post("/two", bob, 429, "429 "+bob)
	post("/two", `{"user":"eve","team":"red"}`, 429, `429 {"user":"eve","team":"red"}`)         // the second directive denies
	post("/two", `{"user":"eve","team":"blue"}`, 200, `POST got {"user":"eve","team":"blue"}`)  // the first one was charged
	post("/two", `{"user":"eve","team":"blue"}`, 429, `429 {"user":"eve","team":"blue"}`)       // and has no more
	post("/two", `{"user":"ann"}`, 400, `400 {"user":"ann"}`)                                   // the second one has no key
	post("/two", `{"user":["ann"],"team":"green"}`, 400, `400 {"user":["ann"],"team":"green"}`) // the first
	post("/two/nested", `{"user":"joe","team":"a"}`, 400, `400 {"user":"joe","team":"a"}`)      // the inner one

	long := `{"user":"bob","padding":"` + strings.Repeat("x", 100) + `"}`
	post("/bounded", bob, 200, bob)
	post("/bounded", long, 413, "413 *")
	sentBody{method: http.MethodPost, url: n.URL + "/bounded", contentType: "application/json", text: long, unannounced: true}.send(t, n.Client.Transport).
		Want(t, 413, "413 *")
	post("/bounded", bob, 200, bob, "X-Ratelimit-Remaining: 0") // the long ones were not charged

	post("/page.html", bob, 200, "<bob> <"+bob+"> part <bob>", "X-Ratelimit-Remaining: 1")
	post("/retried", bob, 200, "POST got "+bob)
	post("/retried", bob, 200, "POST got "+bob)
	post("/retried", bob, 429, "429 "+bob)
	post("/gone", bob, 502, "502 *")
}

// TestBody_errorRoute has directives of an error route go by bodies that a proxy has sent on, of which nothing is left: they
// are no values that are missing.
func TestBody_errorRoute(t *testing.T) {
	n := caddytest.InProcess(t, `redis_ratelimit /known/* { name known; key {json.user}; limit 1000; window 24h; on_empty_key reject }
	reverse_proxy `+echoer(t)+` {
		@failed status 401
		handle_response @failed {
			error 401
		}
	}
	handle_errors {
		@reject path */reject
		redis_ratelimit @reject { name reject; key {json.user}; limit 1; window 24h; on_empty_key reject }
		@skip path */skip
		redis_ratelimit @skip { name skip; key {json.user}; limit 1; window 24h; on_empty_key skip }
		@address path */address
		redis_ratelimit @address { name address; key {json.user}; limit 2; window 24h }
		@match path */match
		redis_ratelimit @match { name match; match vars {json.user} bob; limit 1; window 24h }
		respond {err.status_code}
	}`)
	for _, path := range []string{"/known", "/unknown"} {
		for way, status := range map[string]int{"/reject": 400, "/skip": 400, "/address": 401, "/match": 400, "/none": 401} {
			a := n.Send(t, http.MethodPost, n.URL+path+way+"?status=401", `{"user":"bob"}`, ofJSON)
			assert.ErrorIf(t, a.Status != status, "%v; want the status %d", a, status)
		}
	}
	n.Send(t, http.MethodPost, n.URL+"/known/address?status=401", `{"user":"eve"}`, ofJSON).Want(t, 429, caddytest.Any)
	n.Send(t, http.MethodPost, n.URL+"/known/address", `{"user":"eve"}`, ofJSON).Want(t, 200, `POST got {"user":"eve"}`)
}

// TestBody_usage shows quotas beside a policy with a key of the body, which no GET has, also while a denial is remembered.
func TestBody_usage(t *testing.T) {
	caddytest.OnEachStore(t, `redis_ratelimit /api/* {
		policy plain { key {query.k}; limit 1; window 24h }
		policy account { key {json.user}; limit 5; window 24h; on_empty_key reject }
		policy weighed { key {query.k}; limit 100; window 24h; weight {json.n} 1 }
		policy limited { key {query.k}; limit {json.limit} 7; window 24h }
		policy large { key {query.k}; limit 50; window 24h; match vars {json.model} large }
		usage /api/quota
	}
	respond ok`, func(t *testing.T, n *caddytest.Node, _ string) {
		call := `{"user":"bob","n":10,"limit":20,"model":"large"}`
		for _, status := range []int{200, 429, 429} {
			n.Send(t, http.MethodPost, n.URL+"/api/ask?k=a", call, ofJSON).Want(t, status, caddytest.Any)
			for range 2 {
				got := ""
				for _, q := range usageOf(t, n.Get(t, "/api/quota?k=a")) {
					got += fmt.Sprintf("%s %d/%d ", q.Name, q.Remaining, q.Limit)
				}
				assert.Equal(t, got, "plain 0/1 weighed 90/100 limited 6/7 large 49/50 ", "the quotas")
			}
		}
		n.Send(t, http.MethodHead, n.URL+"/api/quota?k=a", "").Want(t, 200, "")
		n.Send(t, http.MethodPost, n.URL+"/api/quota?k=b", "", ofJSON).Want(t, 400, caddytest.Any) // a request as any other
	})
}

// TestBody_logins counts failing log-ins by address and account.
func TestBody_logins(t *testing.T) {
	caddytest.OnEachStore(t, `@login {
		method POST
		path /login
	}
	redis_ratelimit @login { name address; key {client_ip}; limit 6; window 1h; count_if status 401 403 }
	redis_ratelimit @login { name account; key {form.email}; on_empty_key reject; limit 2; window 1h; count_if status 401 403 }
	reverse_proxy `+echoer(t), func(t *testing.T, n *caddytest.Node, _ string) {
		for _, test := range []struct {
			email    string
			backend  int
			status   int
			got      string
			attempts string // that are left of the address
		}{
			{"bob@example.com", 200, 200, "POST got email=bob@example.com", "6"},
			{"bob@example.com", 401, 401, "POST got email=bob@example.com", "5"},
			{"Bob@Example.com", 403, 403, "POST got email=Bob@Example.com", "4"},
			{"bob@example.com", 200, 429, "Too many requests*", "4"},
			{"eve@example.com", 401, 401, "POST got email=eve@example.com", "3"},
			{"eve@example.com&email=bob@example.com", 401, 400, caddytest.Any, "3"},
			{"eve@example.com&Email[]=x", 401, 400, caddytest.Any, "3"},
			{"", 401, 400, caddytest.Any, "3"},
			{"%2", 401, 400, caddytest.Any, "3"},
		} {
			a := n.Send(t, http.MethodPost, fmt.Sprint(n.URL, "/login?status=", test.backend), "email="+test.email, ofForm)
			a.Want(t, test.status, caddytest.Any)
			assert.ErrorIf(t, test.status != 429 && test.got != caddytest.Any && a.Body != test.got, "%s: got %v", test.email, a)
			n.Ratelimit(t, "state", "--policy", "address", "--key", "127.0.0.1").Want(t, 0, "remaining", test.attempts)
		}
		n.Get(t, "/login").Want(t, 200, "GET got ") // the page of the form
		n.Ratelimit(t, "reset", "--policy", "account", "--key", "BOB@example.com").Want(t, 0, "1 quota reset")
		n.Send(t, http.MethodPost, n.URL+"/login?status=200", "email=bob@example.com", ofForm).Want(t, 200, caddytest.Any)
	})
}

// TestBody_challenge has a browser wait for a quota of its account: forms are refused, and pages are none of an account.
func TestBody_challenge(t *testing.T) {
	n := caddytest.InProcess(t, `redis_ratelimit {
		name accounts
		key {form.email}
		limit 1
		window 24h
		challenge
	}
	respond ok`)
	for _, status := range []int{200, 429} {
		n.Send(t, http.MethodPost, n.URL+"/", "email=bob", ofForm, navigation).Want(t, status, caddytest.Any)
	}
	n.Get(t, "/", navigation).Want(t, 200, "ok")
	a := n.Get(t, "/", navigation).Want(t, 429, caddytest.Any)
	assert.ErrorIf(t, caddytest.WaitingLink(a) == "", "the browser does not wait: %v", a)
}

// TestBody_reload loads another configuration while bodies are being read. They count by the one that has begun to read
// them, in the same quota.
func TestBody_reload(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		site := func(body string) string {
			return caddytest.Config(option, `redis_ratelimit { name accounts; key {json.user}; limit 4; window 24h; on_empty_key reject; `+body+` }
			respond "{http.request.body} {http.redis_ratelimit.json.user}"`)
		}
		n := caddytest.Start(t, site("body 1MiB 1m"))
		const head, tail = `{"user":`, `"bob"}`
		var waiting []*rawConnection
		for range 3 {
			c := connect(t, n)
			c.post(t, "/", fmt.Sprint("Content-Length: ", len(head+tail)))
			assert.NoError(io.WriteString(c, head))(t)
			waiting = append(waiting, c)
		}
		assert.Retry(t, "the bodies are read", func() (again bool, seen any) {
			held := n.Metric(t, "body_bytes")
			return held < float64(len(waiting)*len(head+tail)), held
		})
		assert.Equal(t, n.Load(t, caddytest.WithPorts(n, site("body 10B 1m"))).Status, 200, "the status of the reload")
		n.Send(t, http.MethodPost, n.URL+"/", head+tail, ofJSON).Want(t, http.StatusRequestEntityTooLarge, caddytest.Any)
		for _, c := range waiting {
			assert.NoError(io.WriteString(c, tail))(t)
			assert.Equal(t, c.status(t), http.StatusOK, "the status of a request that was read over a reload")
		}
		n.CheckMetric(t, "body_bytes", 0)
		n.Reload(t, caddytest.WithPorts(n, site("")))
		n.Send(t, http.MethodPost, n.URL+"/", head+tail, ofJSON).Want(t, http.StatusOK, head+tail+" bob", "X-Ratelimit-Remaining: 0")
	})
}
