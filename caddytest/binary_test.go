// Package caddytest tests the project from outside: the real Caddy as a process, through HTTP, its admin
// API and its commands, with real Redis servers.
package caddytest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// buildDir is the folder of the Caddy under test.
var buildDir string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "caddytest")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	buildDir = dir
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder may stay
	return m.Run()
}

// binary returns the path of the Caddy under test: built once per run, or named by CADDY_BINARY.
func binary(t testing.TB) string {
	t.Helper()
	path, err := builtBinary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var builtBinary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("CADDY_BINARY"); path != "" {
		return filepath.Abs(path)
	}
	path := filepath.Join(buildDir, "caddy")
	// The Makefile's flags, so that both use the same build cache.
	build := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-tags", "nobadger,nomysql,nopgx", "-o", path, "./cmd/caddy")
	build.Dir = ".."
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building Caddy: %w\n%s", err, output)
	}
	return path, nil
})

// environment returns the variables of a Caddy process: a home of its own, and nothing of the user's.
func environment(t testing.TB, env ...string) []string {
	t.Helper()
	home := t.TempDir()
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home,
		"XDG_CONFIG_HOME=" + home, "XDG_DATA_HOME=" + home, "XDG_CACHE_HOME=" + home,
	}, env...)
}

// command runs a command of Caddy, for at most a minute.
func command(t testing.TB, env []string, args ...string) (output string, err error) {
	t.Helper()
	cmd := exec.Command(binary(t), args...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = environment(t, env...), t.TempDir(), time.Second
	overdue := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() }) // it may have ended already
	defer overdue.Stop()
	text, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(text), err
}

// writeCaddyfile writes a Caddyfile to a folder of its own and returns its path.
func writeCaddyfile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "Caddyfile")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
