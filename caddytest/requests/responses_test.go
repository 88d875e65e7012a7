package requests

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// upstream starts a server with a rate limiter of its own.
func upstream(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	}))
	t.Cleanup(server.Close)
	return server
}

func TestUpstream_headers(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", "redis_ratelimit {http.request.uri.path} 10 24h\nreverse_proxy "+upstream(t).Listener.Addr().String()))
	for path, status := range map[string]int{"/": 200, "/hint": 200, "/stream": 200, "/away": 504} {
		a := n.Get(t, path)
		caddytest.CheckQuota(t, a, 10, 9)
		if a.Status != status || a.Header.Get("X-Upstream") != "yes" {
			t.Errorf("%s: got %v; want status %d of the upstream", path, a, status)
		}
	}
}

func TestUpstream_down(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", "redis_ratelimit same 10 24h\nreverse_proxy "+redistest.FreeAddr(t)+"\nhandle_errors {\nrespond \"sorry\"\n}"))
	a := n.Get(t, "/")
	caddytest.CheckQuota(t, a, 10, 9)
	if a.Status != http.StatusBadGateway || a.Body != "sorry" {
		t.Errorf("got %v; want 502 through the error route", a)
	}
}

func TestHeaders_filesAndCompression(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	text := strings.Repeat("hello ", 1000)
	if err := os.WriteFile(filepath.Join(root, "a.txt"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	n := caddytest.Start(t, caddytest.Config("", "redis_ratelimit {header.Accept-Encoding}x 10 24h\nroot "+root+"\nencode gzip\nfile_server"))
	for _, encoding := range []string{"identity", "gzip"} {
		a := n.Get(t, "/a.txt", "Accept-Encoding: "+encoding)
		caddytest.CheckQuota(t, a, 10, 9)
		if (a.Header.Get("Content-Encoding") == "gzip") != (encoding == "gzip") || (a.Body == text) == (encoding == "gzip") {
			t.Errorf("with %s: got status %d, %d bytes, %v", encoding, a.Status, len(a.Body), a.Header)
		}
	}
	if a := n.Get(t, "/missing.txt", "Accept-Encoding: identity"); a.Status != http.StatusNotFound {
		t.Errorf("got %v; want 404", a)
	} else {
		caddytest.CheckQuota(t, a, 10, 8)
	}
}

func TestHeaders_headAndLargeBodies(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", "redis_ratelimit same 10 24h\nrespond {http.request.method}"))
	caddytest.CheckQuota(t, n.Send(t, http.MethodHead, n.URL, ""), 10, 9)
	a := n.Send(t, http.MethodPost, n.URL, strings.Repeat("x", 1<<20))
	caddytest.CheckQuota(t, a, 10, 8)
	if a.Body != http.MethodPost {
		t.Errorf("got %v", a)
	}
}

// TestAccessLog_decision checks the fields for each kind of request, and the placeholder of the reason.
func TestAccessLog_decision(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\nredis redis://"+server.Addr+"\nfail_mode open\n}", "log\nredis_ratelimit {\nname api\nkey {query.k}\nlimit 1\nwindow 24h\n}\nrespond <{http.redis_ratelimit.reason}>\nhandle_errors {\nrespond <{http.redis_ratelimit.reason}>\n}"))
	waitForAccess := func(path, decision, reason, policy string) {
		if a := n.Get(t, path); a.Body != "<"+reason+">" {
			t.Errorf("%s: got %v; want the reason %q", path, a, reason)
		}
		redistest.WaitFor(t, path+" is logged", func() error {
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
			if fields.Decision != decision || fields.Reason != reason || fields.Policy != policy {
				t.Errorf("%s: got %+v; want %s for %q by %q", path, fields, decision, reason, policy)
			}
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
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", "redis_ratelimit same 10 24h"+caddytest.ShowDecision))
	n.Reload(t, caddytest.Config("", "redis_ratelimit same 11 24h"+caddytest.ShowDecision))
	lines := n.Log.Lines(func(l caddytest.LogLine) bool { return caddytest.Ours(l) && l.Level == "info" })
	if len(lines) != 1 || !strings.Contains(lines[0].Message, "not shared") {
		t.Errorf("the log has %v; want once that limits are not shared", lines)
	}
}
