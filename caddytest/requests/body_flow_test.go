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
