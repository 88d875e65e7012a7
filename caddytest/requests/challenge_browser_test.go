package requests

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"net/http"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestChallenge_browser has a real browser wait, with scripts and without, with cookies and without. Its pages are
// counted by the upstream, and the pages that wait by the log.
func TestChallenge_browser(t *testing.T) {
	t.Parallel()
	browser := caddytest.Chromium(t)
	for name, test := range map[string]struct {
		preference string // of the browser's profile
		argument   string
		opens      bool
	}{
		"scripts": {"", "--lang=en", true}, "no scripts": {`"javascript":2`, "--blink-settings=scriptEnabled=false", true},
		"no cookies": {`"cookies":2`, "--lang=en", false}, "neither": {`"javascript":2,"cookies":2`, "--blink-settings=scriptEnabled=false", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var opened, scripted atomic.Int64
			upstream := caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				switch r.URL.RequestURI() {
				case "/dir/page?a=b&c=%41":
					opened.Add(1)
					_, _ = w.Write([]byte(`<title>content</title><script>fetch("/scripted")</script>`))
				case "/scripted":
					scripted.Add(1)
				}
			})
			n := caddytest.Start(t, caddytest.Config("", "log\nredis_ratelimit {\nlimit 1\nwindow 24h\nchallenge 2 50\n}\nreverse_proxy "+strings.TrimPrefix(upstream, "http://")))
			n.Get(t, "/used-up")
			profile := redistest.NoError(os.MkdirTemp("", "challenge"))(t)
			t.Cleanup(func() { // processes of the browser write to it a little longer than the first one lives
				redistest.Retry(t, "the profile is removed", func() (again bool, seen any) {
					err := os.RemoveAll(profile)
					return err != nil, err
				})
			})
			redistest.Must(t, os.MkdirAll(filepath.Join(profile, "Default"), 0o700))
			redistest.Must(t, os.WriteFile(filepath.Join(profile, "Default", "Preferences"), []byte(`{"profile":{"default_content_setting_values":{`+test.preference+`}}}`), 0o600))
			command := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
				"--disable-background-networking", "--user-data-dir="+profile, "--remote-debugging-port=0", test.argument, n.URL+"/dir/page?a=b&c=%41")
			command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
			command.WaitDelay = 5 * time.Second
			redistest.Must(t, command.Start())
			t.Cleanup(func() {
				_ = command.Process.Signal(os.Interrupt) // it may have exited
				_ = command.Wait()                       // which says how it was ended
			})
			outcome := func(o string) bool { return strings.Contains(n.Log.String(), `"ratelimit_challenge":"`+o+`"`) }
			redistest.Retry(t, "the browser comes through", func() (again bool, seen any) {
				if !test.opens {
					return !outcome("no_cookies"), "no page without cookies"
				}
				return opened.Load() == 0 || name == "scripts" && scripted.Load() == 0, []int64{opened.Load(), scripted.Load()}
			})
			if !test.opens {
				<-time.After(4 * time.Second) // a loop would go on
			}
			shown := n.Metric(t, `challenges_total{outcome="shown"}`)
			redistest.ErrorIf(t, shown != 1 || (opened.Load() > 0) != test.opens || name == "no scripts" && scripted.Load() > 0,
				"%v pages waited, %d opened, %d scripts ran", shown, opened.Load(), scripted.Load())
		})
	}
}
