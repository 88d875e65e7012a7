package caddytest

import (
	"os/exec"
	"testing"
)

// Chromium returns the path of a browser, or skips the test.
func Chromium(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no Chromium in PATH; Debian's package is chromium")
	return ""
}
