package admin

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

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
			if strings.ContainsAny(e.Stdout+e.Stderr, "\u009b\u202e") {
				t.Errorf("%v, status %d: %q", args, code, e.Stdout+e.Stderr)
			}
			if e.Code != want {
				t.Errorf("%v, status %d: got %v; want exit code %d", args, code, e, want)
			}
		}
	}
}
