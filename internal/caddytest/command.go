package caddytest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// Ending is the output and exit code of a command.
type Ending struct {
	Stdout, Stderr string
	Code           int
}

// String formats an ending for a test's error.
func (e Ending) String() string {
	return fmt.Sprintf("exit code %d\nstdout: %s\nstderr: %s", e.Code, e.Stdout, e.Stderr)
}

// Run is how a command runs. By default it has a folder of its own and no input, and its output is read.
type Run struct {
	Folder string
	Env    []string
	Stdin  io.Reader
	Stdout io.Writer
}

// Caddy runs a command of Caddy, for at most a minute.
func (r Run) Caddy(t testing.TB, args ...string) Ending {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(Binary(t), args...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = Environment(t, r.Env...), cmp.Or(r.Folder, t.TempDir()), time.Minute
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r.Stdin, cmp.Or(r.Stdout, io.Writer(&stdout)), &stderr
	overdue := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() }) // it may have ended already
	defer overdue.Stop()
	exit := new(exec.ExitError)
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return Ending{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// CheckCaddyfile checks that a Caddyfile is valid, has no warning of this module, and is written as caddy fmt writes it.
func CheckCaddyfile(t testing.TB, text string, env []string) {
	t.Helper()
	e := Run{Env: env}.Caddy(t, "validate", "--config", WriteCaddyfile(t, text), "--adapter", "caddyfile")
	assert.ErrorIf(t, e.Code != 0 || strings.Contains(e.Stderr, "caddy fmt"), "caddy validate: %v\n%s", e, text)
	for line := range strings.Lines(e.Stderr) {
		assert.ErrorIf(t, strings.Contains(line, `"level":"warn"`) && strings.Contains(line, "redis_ratelimit"),
			"caddy validate warns: %s\n%s", line, text)
	}
}

// Ratelimit runs 'caddy redis-ratelimit' with arguments.
func (r Run) Ratelimit(t testing.TB, args ...string) Ending {
	t.Helper()
	e := r.Caddy(t, append([]string{"redis-ratelimit"}, args...)...)
	if strings.Contains(e.Stdout+e.Stderr, "\x1b") || strings.Contains(e.Stderr, "goroutine ") {
		t.Errorf("%v prints colors or other orders to a terminal in a pipe, or panics: %v", args, e)
	}
	return e
}

// RunRatelimit runs 'caddy redis-ratelimit' with arguments.
func RunRatelimit(t testing.TB, env []string, args ...string) Ending {
	t.Helper()
	return Run{Env: env}.Ratelimit(t, args...)
}

// Ratelimit runs a command with the admin address of this node.
func (n *Node) Ratelimit(t testing.TB, args ...string) Ending {
	t.Helper()
	return RunRatelimit(t, nil, append(args, "--address", strings.TrimPrefix(n.Admin, "http://"))...)
}

// Want checks the exit code of a command, and that each text is in its output.
func (e Ending) Want(t testing.TB, code int, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(e.Stdout, text) && !strings.Contains(e.Stderr, text) {
			t.Errorf("%q is missing in %v", text, e)
		}
	}
	assert.ErrorIf(t, e.Code != code, "got %v; want exit code %d", e, code)
}

// ParseJSON parses the output of a command with --json.
func (e Ending) ParseJSON(t testing.TB) (answer map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(e.Stdout), &answer); err != nil {
		t.Fatalf("%v: %v", err, e)
	}
	return answer
}
