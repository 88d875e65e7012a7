package requests

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// strangersLeft is a site whose one unit for strangers is used up by one request.
const strangersLeft = "log\nredis_ratelimit { name site; key everyone; limit 50; window 400d; reserve 49; challenge }\nreverse_proxy "

// TestChallengeReserve_text has browsers for text read the page that they asked for: w3m follows the page that waits by itself,
// lynx by its links, with cookies and without.
func TestChallengeReserve_text(t *testing.T) {
	t.Parallel()
	keys := filepath.Join(t.TempDir(), "keys")
	assert.Must(t, os.WriteFile(keys, []byte(strings.Repeat("key ^J\n", 4)), 0o600)) // the first link of each page
	for name, test := range map[string]struct {
		program string
		waits   float64
	}{
		"w3m": {"w3m -cookie -o accept_cookie=1 -o meta_refresh=1", 3}, "w3m without cookies": {"w3m -no-cookie -o meta_refresh=1", 1},
		"lynx": {"lynx -accept_all_cookies -cmd_script=" + keys, 3}, "lynx without cookies": {"lynx -cookies -cmd_script=" + keys, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program, _, _ := strings.Cut(test.program, " ")
			for _, needed := range []string{program, "script"} {
				if _, err := exec.LookPath(needed); err != nil {
					t.Skipf("no %s in PATH", needed)
				}
			}
			var opened atomic.Int64
			n := caddytest.Start(t, caddytest.Config("", strangersLeft+caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.RequestURI == "/page?a=%41" {
					opened.Add(1)
				}
				w.Header().Set("Content-Type", "text/html")
				_, _ = w.Write([]byte("<p>The page that was asked for"))
			})))
			n.Get(t, "/")
			screen, end := onScreen(t, test.program+" '"+n.URL+"/page?a=%41'")
			defer end()
			assert.Retry(t, "the page is read", func() (again bool, seen any) {
				text := screen()
				return opened.Load() == 0 || !strings.Contains(text, "The page that was asked for"), text
			})
			n.CheckMetric(t, `challenges_total{outcome="shown"}`, test.waits)
			n.CheckMetric(t, `challenges_total{outcome="cookieless"}`, 1)
		})
	}
}

// onScreen runs a program on a terminal, and returns what reads the screen, and what ends the program.
func onScreen(t *testing.T, command string) (screen func() string, end func()) {
	t.Helper()
	home := t.TempDir()
	output := filepath.Join(home, "screen")
	program := exec.Command("script", "-qfec", command, output)
	program.Env = append(os.Environ(), "TERM=xterm", "HOME="+home, "LC_ALL=C.UTF-8")
	input := assert.NoError(program.StdinPipe())(t)
	var stderr bytes.Buffer
	program.Stderr, program.WaitDelay = &stderr, time.Second
	assert.Must(t, program.Start())
	return func() string {
			text, _ := os.ReadFile(output) // which appears with the program
			return string(text) + stderr.String()
		}, func() {
			_ = input.Close()
			_ = program.Process.Kill()
			_ = program.Wait() // it was killed
		}
}

// TestChallengeReserve_browser has Chromium read the page that it asked for: with scripts and without, with cookies and where
// all are blocked.
func TestChallengeReserve_browser(t *testing.T) {
	t.Parallel()
	for _, b := range []caddytest.Browser{
		{Kind: caddytest.Chromium, Cookies: true}, {Kind: caddytest.Chromium, Scripts: true, Cookies: true}, {Kind: caddytest.Chromium, Scripts: true},
	} {
		name := "scripts"
		if !b.Scripts {
			name = "no scripts"
		}
		if !b.Cookies {
			name = "no cookies"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b.Kind.Find(t)
			var opened atomic.Int64
			upstream := caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.RequestURI == "/dir/page?a=b&c=%41" {
					opened.Add(1)
				}
				w.Header().Set("Content-Type", "text/html")
				_, _ = w.Write([]byte(`<title>content</title>`))
			})
			n := caddytest.Start(t, caddytest.Config("", "header {\n-Server\nContent-Security-Policy \"default-src 'none'\"\n}\nencode gzip\n"+strangersLeft+upstream))
			n.Get(t, "/")
			b.Open(t, n.URL+"/dir/page?a=b&c=%41")
			assert.Retry(t, "the browser comes through", func() (again bool, seen any) { return opened.Load() == 0, n.Log })
			passed, once := n.Metric(t, `challenges_total{outcome="passed"}`), n.Metric(t, `challenges_total{outcome="cookieless"}`)
			assert.ErrorIf(t, b.Cookies != (passed == 1) || b.Cookies != (once == 0), "%v passed, %v went on for one page", passed, once)
		})
	}
}
