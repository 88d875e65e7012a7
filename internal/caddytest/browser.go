package caddytest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// BrowserKind is a browser's engine.
type BrowserKind string

// The engines.
const (
	Chromium BrowserKind = "Chromium"
	Firefox  BrowserKind = "Firefox"
)

// Find returns the path of a browser, or skips the test.
func (k BrowserKind) Find(t testing.TB) string {
	t.Helper()
	names := []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}
	if k == Firefox {
		names = []string{"firefox-esr", "firefox"}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skipf("no %s in PATH; Debian's package is %s", k, names[0])
	return ""
}

// Browser is what a browser allows.
type Browser struct {
	Kind             BrowserKind
	Scripts, Cookies bool
}

// Open opens a URL for the time of a test, and returns the folder of the browser's profile.
func (b Browser) Open(t testing.TB, url string) (profile string) {
	t.Helper()
	program := b.Kind.Find(t)
	profile = assert.NoError(os.MkdirTemp("", "browser"))(t)
	t.Cleanup(func() { // processes of the browser write to it a little longer than the first one lives
		assert.Retry(t, "the profile is removed", func() (again bool, seen any) {
			err := os.RemoveAll(profile)
			return err != nil, err
		})
	})
	denied := func(allowed bool, yes, no int) int {
		if allowed {
			return no
		}
		return yes
	}
	file, text := "user.js", fmt.Sprintf("user_pref(%q, %t);\nuser_pref(%q, %d);\n", "javascript.enabled", b.Scripts,
		"network.cookie.cookieBehavior", denied(b.Cookies, 2, 0))
	arguments := []string{
		"--headless", "--no-remote", "--remote-debugging-port", "0", "--remote-allow-origins", "http://127.0.0.1", "--profile", profile, url,
	}
	if b.Kind == Chromium {
		file = filepath.Join("Default", "Preferences")
		text = fmt.Sprintf(`{"profile":{"default_content_setting_values":{"javascript":%d,"cookies":%d}}}`, denied(b.Scripts, 2, 1),
			denied(b.Cookies, 2, 1))
		arguments = []string{
			"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
			"--user-data-dir=" + profile, "--remote-debugging-port=0", "--remote-allow-origins=*",
			fmt.Sprintf("--blink-settings=scriptEnabled=%t", b.Scripts), url,
		}
	}
	assert.Must(t, os.MkdirAll(filepath.Join(profile, filepath.Dir(file)), 0o700))
	assert.Must(t, os.WriteFile(filepath.Join(profile, file), []byte(text), 0o600))
	command := exec.CommandContext(t.Context(), program, arguments...)
	command.Env = append(os.Environ(), "TZ=UTC") // pages show times in the browser's zone
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 5 * time.Second
	assert.Must(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Signal(os.Interrupt) // it may have exited
		_ = command.Wait()                       // which says how it was ended
	})
	return profile
}
