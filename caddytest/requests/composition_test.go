package requests

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// sharing is a Caddyfile of two sites. The second has a limit and an option of its own.
func sharing(global, limit, option string) string {
	return caddytest.ConfigWithSites(global, `http://127.0.0.1:{$PORT} {
		redis_ratelimit same 10 24h { name shared }`+caddytest.ShowDecision+`
	}
	http://localhost:{$PORT} {
		redis_ratelimit same `+limit+` 24h { name shared; `+option+` }`+caddytest.ShowDecision+`
	}
	`)
}

func TestSites_sharedPolicy(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, global, source string) {
		n := caddytest.Start(t, sharing(global, "10", "weight 3"))
		for _, test := range []struct {
			url  string
			left int64
		}{{n.URL, 9}, {n.LocalhostURL(), 6}, {n.LocalhostURL(), 3}, {n.URL, 2}} {
			a := n.Send(t, http.MethodGet, test.url, "")
			a.Want(t, http.StatusOK, "allowed "+source)
			caddytest.CheckQuota(t, a, 10, test.left)
		}
		caddytest.CheckRefusal(t, n.Send(t, http.MethodGet, n.LocalhostURL(), ""), http.StatusTooManyRequests)
		n.Get(t, "/").Want(t, http.StatusOK, "allowed "+source) // whose weight is 1
		for _, test := range []struct{ limit, option, complaint string }{
			{"11", "", "limit 11"},
			{"10", "algorithm fixed_window", "fixed_window"},
			{"10", "ipv6_prefix 48", "48"},
		} {
			a := n.Load(t, caddytest.WithPorts(n, sharing(global, test.limit, test.option)))
			for _, part := range []string{`policy \"shared\"`, "two meanings", test.complaint} {
				a.Want(t, http.StatusBadRequest, "*"+part+"*")
			}
		}
		caddytest.CheckQuota(t, n.Get(t, "/"), 10, 0)
	})
}

// everything is a body with each placeholder.
const everything = `"{http.redis_ratelimit.decision}|{http.redis_ratelimit.policy}|{http.redis_ratelimit.limit}|{http.redis_ratelimit.remaining}|{http.redis_ratelimit.retry_after}|{http.redis_ratelimit.reset_after}|{http.redis_ratelimit.source}|{http.redis_ratelimit.dry_run}"`

// twoPolicies are a policy in dry run and an enforced one with 2 requests a day.
const twoPolicies = `redis_ratelimit {
	policy pretend { key {path}; limit 1; window 24h; dry_run }
	policy real { key {path}; limit 2; window 24h; algorithm sliding_window_log }
	{$MORE}
}
`

// checkEverything checks the body of [everything] for the second or a later request. Times are a day, or a little less.
func checkEverything(t *testing.T, a caddytest.Response, decision, source string) {
	t.Helper()
	retry := "0"
	if decision == "denied" {
		caddytest.CheckRefusal(t, a, http.StatusTooManyRequests)
		retry = "86*"
	}
	a.Want(t, 0, decision+"|real|2|0|"+retry+"|86*|"+source+"|pretend")
	caddytest.CheckQuota(t, a, 2, 0)
}

// TestPlaceholders_handlers reads the placeholders in the next handler, in handle_errors and in intercept.
func TestPlaceholders_handlers(t *testing.T) {
	t.Parallel()
	sites := map[string]string{
		"handle_errors": twoPolicies + "respond " + everything + "\nhandle_errors {\nrespond " + everything + "\n}",
		"intercept inside": `handle_errors { respond ` + everything + ` }
		` + twoPolicies + `
		intercept {
			@teapot status 418
			handle_response @teapot { respond ` + everything + ` 200 }
		}
		respond 418`,
		"intercept around": `route {
			intercept {
				@known status 418 429
				handle_response @known { respond ` + everything + ` {http.intercept.status_code} }
			}
			` + strings.Replace(twoPolicies, "{$MORE}", "answer problem", 1) + `
			respond 418
		}`,
	}
	for name, site := range sites {
		for source, global := range caddytest.Stores(t) {
			t.Run(name+" "+source, func(t *testing.T) {
				t.Parallel()
				n := caddytest.Start(t, caddytest.Config(global, site))
				n.Get(t, "/")
				checkEverything(t, n.Get(t, "/"), "allowed", source)
				checkEverything(t, n.Get(t, "/"), "denied", source)
				again := map[string]string{"memory": "memory", "redis": "deny_cache"}[source]
				checkEverything(t, n.GetUntil(t, "/", again), "denied", again)
			})
		}
	}
}

// upstream starts a server with a rate limiter of its own.
func upstream(t *testing.T) (address string) {
	t.Helper()
	return caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
			w.Header().Add(name, "98")
			w.Header().Add(name, "99")
		}
		w.Header().Set("X-Upstream", "yes")
		switch r.URL.Path {
		case "/hint":
			w.WriteHeader(http.StatusEarlyHints)
		case "/stream":
			for range 3 {
				fmt.Fprint(w, "part ")
				_ = http.NewResponseController(w).Flush() // it is supported
			}
		case "/away":
			w.WriteHeader(http.StatusGatewayTimeout)
		}
	})
}

// TestUpstream_headers has an upstream that sends the same headers, and one that is down.
func TestUpstream_headers(t *testing.T) {
	n := caddytest.InProcess(t, "redis_ratelimit {http.request.uri.path} 10 24h\n@method path /method\nrespond @method {http.request.method}\n"+
		"reverse_proxy /down "+redistest.FreeAddr(t)+"\nreverse_proxy "+upstream(t)+"\nhandle_errors {\nrespond sorry\n}")
	for path, status := range map[string]int{"/": 200, "/hint": 200, "/stream": 200, "/away": 504} {
		caddytest.CheckQuota(t, n.Get(t, path).Want(t, status, caddytest.Any, "X-Upstream: yes"), 10, 9)
	}
	caddytest.CheckQuota(t, n.Get(t, "/down").Want(t, http.StatusBadGateway, "sorry"), 10, 9) // 502 through the error route
	caddytest.CheckQuota(t, n.Send(t, http.MethodHead, n.URL+"/method", ""), 10, 9)
	caddytest.CheckQuota(t, n.Send(t, http.MethodPost, n.URL+"/method", strings.Repeat("x", 1<<20)).Want(t, 0, http.MethodPost), 10, 8)
}

func TestHeaders_filesAndCompression(t *testing.T) {
	root := t.TempDir()
	text := strings.Repeat("hello ", 1000)
	assert.Must(t, os.WriteFile(filepath.Join(root, "a.txt"), []byte(text), 0o600))
	n := caddytest.InProcess(t, "redis_ratelimit {header.Accept-Encoding}x 10 24h\nroot "+root+"\nencode gzip\nfile_server")
	for _, encoding := range []string{"identity", "gzip"} {
		a := n.Get(t, "/a.txt", "Accept-Encoding: "+encoding)
		caddytest.CheckQuota(t, a, 10, 9)
		assert.ErrorIf(t, (a.Header.Get("Content-Encoding") == "gzip") != (encoding == "gzip") || (a.Body == text) == (encoding == "gzip"), "with %s: got status %d, %d bytes, %v", encoding, a.Status, len(a.Body), a.Header)
	}
	a := n.Get(t, "/missing.txt", "Accept-Encoding: identity").Want(t, http.StatusNotFound, caddytest.Any)
	caddytest.CheckQuota(t, a, 10, 8)
}

// TestAccessLog_decision checks the fields for each kind of request, and the placeholder of the reason.
func TestAccessLog_decision(t *testing.T) {
	n, server := caddytest.OnRedis(t, "timeout 10s\nfail_mode open", "log\nredis_ratelimit {\nname api\nkey {query.k}\nlimit 1\nwindow 24h\n}\nrespond <{http.redis_ratelimit.reason}>\nhandle_errors {\nrespond <{http.redis_ratelimit.reason}>\n}")
	waitForAccess := func(path, decision, reason, policy string) {
		n.Get(t, path).Want(t, 0, "<"+reason+">")
		assert.WaitFor(t, path+" is logged", func() error {
			lines := n.Log.Lines(func(l caddytest.LogLine) bool {
				return strings.HasPrefix(l.Logger, "http.log.access") && strings.Contains(l.Text, `"uri":"`+path)
			})
			if len(lines) == 0 {
				return io.EOF
			}
			var fields struct {
				Decision string `json:"ratelimit_decision"`
				Reason   string `json:"ratelimit_reason"`
				Policy   string `json:"ratelimit_policy"`
			}
			if err := json.Unmarshal([]byte(lines[0].Text), &fields); err != nil {
				return err
			}
			assert.ErrorIf(t, fields.Decision != decision || fields.Reason != reason || fields.Policy != policy, "%s: got %+v; want %s for %q by %q", path, fields, decision, reason, policy)
			if reason == "" && strings.Contains(lines[0].Text, "ratelimit_reason") {
				t.Errorf("%s: the line has a reason: %s", path, lines[0].Text)
			}
			return nil
		})
	}
	waitForAccess("/first?k=a", "allowed", "", "api")
	waitForAccess("/second?k=a", "denied", "limit", "api")
	server.Kill()
	waitForAccess("/third?k=b", "failed_open", "", "")
}

func TestMemory_logLine(t *testing.T) {
	n := caddytest.InProcess(t, "redis_ratelimit same 10 24h"+caddytest.ShowDecision)
	n.Reload(t, caddytest.Config("", "redis_ratelimit same 11 24h"+caddytest.ShowDecision))
	lines := n.Log.Lines(func(l caddytest.LogLine) bool { return caddytest.Ours(l) && l.Level == "info" })
	assert.ErrorIf(t, len(lines) != 1 || !strings.Contains(lines[0].Message, "not shared"), "the log has %v; want once that limits are not shared", lines)
}

// TestTracing_spans exports the spans of Caddy's tracing to a collector.
func TestTracing_spans(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var mu sync.Mutex
	var spans strings.Builder
	address := caddytest.Serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a truncated body has no span
		mu.Lock()
		defer mu.Unlock()
		spans.Write(body)
	})
	collected := func() string {
		mu.Lock()
		defer mu.Unlock()
		return spans.String()
	}
	n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\n\tredis redis://"+server.Addr+"\n}", "tracing {\n\tspan outer-span\n}\nredis_ratelimit same 1000 24h"+caddytest.ShowDecision),
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://"+address, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "OTEL_BSP_SCHEDULE_DELAY=50",
		"OTEL_METRICS_EXPORTER=none", "OTEL_LOGS_EXPORTER=none")
	caddytest.WaitForRedis(t, n, "/")
	assert.WaitFor(t, "the spans have come", func() error {
		for _, text := range []string{"outer-span", "EVALSHA", "db.system.name", "server.port"} {
			if !strings.Contains(collected(), text) {
				return errors.New("none has " + text)
			}
		}
		return nil
	})
	assert.ErrorIf(t, strings.Contains(collected(), "rl:{"), "a client's key is in a span")
}

// TestTemplates_includes has pages that include others by requests of their own, which are no client's.
func TestTemplates_includes(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"page.html": `page {{httpInclude "/part.html"}}`, "part.html": `part {{httpInclude "/leaf.html"}}`, "leaf.html": "leaf",
	} {
		assert.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	n := caddytest.InProcess(t, "root "+dir+"\nredis_ratelimit {\nkey {client_ip}\nlimit 3\nwindow 24h\n}\ntemplates\nfile_server")
	for left := int64(2); left >= 0; left-- {
		caddytest.CheckQuota(t, n.Get(t, "/page.html").Want(t, http.StatusOK, "page part leaf"), 3, left) // the page with its parts
	}
	for _, path := range []string{"/page.html", "/leaf.html"} {
		caddytest.CheckRefusal(t, n.Get(t, path, "Caddy-Templates-Include: 1"), http.StatusTooManyRequests)
	}
}
