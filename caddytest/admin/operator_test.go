package admin

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// operated is a site with a high and a low limit.
const operated = `redis_ratelimit {
		policy login {
			key {header.X-User}
			match { path /login }
			limit 3
			window 24h
		}
		policy everything { key {header.X-User}; limit 1000; window 24h }
	}` + caddytest.ShowDecision

// TestOperator_questions answers four questions by one command each: is the limiter working, who is being limited, why
// was this client refused, and how do I let it through now. It does so with Redis, without it, and while it is down.
func TestOperator_questions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		store, source    string
		working          string
		explained, reset int // exit codes
	}{
		{"redis", "redis", "breaker closed", 4, 0},
		{"memory", "memory", "memory", 4, 0},
		{"redis that is gone", "fallback", "does not decide", 3, 3},
	} {
		t.Run(test.store, func(t *testing.T) {
			t.Parallel()
			n := operatedNode(t, test.store)
			n.GetTimes(t, 5, "/login", "X-User: mallory")
			n.Get(t, "/login", "X-User: alice")
			ask := []string{"explain", "--url", n.URL + "/login", "--client-ip", "192.0.2.7", "--header", "X-User: mallory"}
			n.Ratelimit(t, "policies").Want(t, 0, "login", "everything", "sliding_window_counter", test.working)  // is it working
			n.Ratelimit(t, "top", "--policy", "login").Want(t, 0, "mallory", "2")                                 // who is limited
			n.Ratelimit(t, ask...).Want(t, test.explained, "denied", "mallory", "0/3", "login", test.source)      // why was it refused
			n.Ratelimit(t, "reset", "--policy", "login", "--key", "mallory").Want(t, test.reset, "1 quota reset") // let it through
			n.Get(t, "/login", "X-User: mallory").Want(t, 200, caddytest.Any)
		})
	}
}

// operatedNode starts a node with that site, on a store.
func operatedNode(t *testing.T, store string) *caddytest.Node {
	t.Helper()
	if store == "memory" {
		return caddytest.Start(t, caddytest.Config("", operated))
	}
	server := redistest.Start(t)
	n := caddytest.Start(t, caddytest.Config(caddytest.PatientRedis(server), operated))
	if store == "redis" {
		caddytest.WaitForRedis(t, n, "/")
	} else {
		server.Kill()
	}
	return n
}

// TestCommands_controlCharacters has an admin endpoint with terminal sequences in every text, as in the
// key of a hostile client. [caddytest.RunRatelimit] fails where one is printed.
func TestCommands_controlCharacters(t *testing.T) {
	t.Parallel()
	const evil = `"\u001b[31m\u009b1m\u202e\n"`
	answers := map[string]string{
		"policies": `{"store":{"kind":EVIL,"mode":EVIL,"addresses":[EVIL],"error":EVIL,"breaker":EVIL,"fail_mode":EVIL},
			"policies":[{"name":EVIL,"algorithm":EVIL,"limit":1,"limit_from":EVIL,"window":1,"burst_from":EVIL}]}`,
		"state":   `{"policy":EVIL,"key":EVIL,"source":EVIL,"keys":[{"name":EVIL,"type":EVIL,"value":{EVIL:EVIL,"list":[EVIL]}}]}`,
		"reset":   `{"deleted":1}`,
		"top":     `{"since":60,"keys":[{"policy":EVIL,"key":EVIL,"denied":2}]}`,
		"explain": `{"server":EVIL,"decision":EVIL,"policies":[{"policy":EVIL,"key":EVIL,"decision":EVIL,"source":EVIL},{"decision":EVIL}],"skipped":[EVIL]}`,
	}
	var status atomic.Int64
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := answers[strings.TrimPrefix(r.URL.Path, "/redis_ratelimit/")]
		if status.Load() != http.StatusOK {
			text = `{"error":EVIL}`
		}
		w.WriteHeader(int(status.Load()))
		_, _ = io.WriteString(w, strings.ReplaceAll(text, "EVIL", evil)) // the command may stop reading
	}))
	t.Cleanup(admin.Close)
	for _, args := range [][]string{
		{"policies"}, {"state", "--policy", "p", "--key", "k"}, {"reset", "--policy", "p", "--all"}, {"top"}, {"explain", "--url", "/"},
	} {
		for code, want := range map[int64]int{http.StatusOK: 0, http.StatusNotFound: 2, http.StatusServiceUnavailable: 3, http.StatusInternalServerError: 1} {
			status.Store(code)
			e := caddytest.RunRatelimit(t, nil, append(args, "--address", strings.TrimPrefix(admin.URL, "http://"))...)
			redistest.ErrorIf(t, strings.ContainsAny(e.Stdout+e.Stderr, "\u009b\u202e"), "%v, status %d: %q", args, code, e.Stdout+e.Stderr)
			redistest.ErrorIf(t, e.Code != want, "%v, status %d: got %v; want exit code %d", args, code, e, want)
		}
	}
}
