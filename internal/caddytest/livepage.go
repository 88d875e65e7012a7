package caddytest

import (
	"bufio"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// LivePage is a running 'caddy redis-ratelimit page'.
type LivePage struct {
	URL    string // that opens it, once
	Origin string // scheme, host and port
	cmd    *exec.Cmd
}

// StartPage runs the command on an admin address, such as localhost:2019, until the test's end.
func StartPage(t testing.TB, admin string, args ...string) *LivePage {
	t.Helper()
	cmd := exec.Command(Binary(t), append([]string{"redis-ratelimit", "page", "--address", admin}, args...)...)
	cmd.Env, cmd.Dir = Environment(t), t.TempDir()
	output := assert.NoError(cmd.StdoutPipe())(t)
	assert.Must(t, cmd.Start())
	p := &LivePage{cmd: cmd}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // which says so
	})
	lines := bufio.NewScanner(output)
	for p.URL == "" && lines.Scan() {
		if strings.HasPrefix(lines.Text(), "http://") {
			p.URL = lines.Text()
		}
	}
	origin, _, found := strings.Cut(p.URL, "/open/")
	assert.FatalIf(t, !found, "the command prints %q", p.URL)
	p.Origin = origin
	return p
}

// Stop ends the command as Ctrl-C does, and returns its exit code.
func (p *LivePage) Stop(t testing.TB) int {
	t.Helper()
	assert.Must(t, p.cmd.Process.Signal(syscall.SIGINT))
	_ = p.cmd.Wait() // the exit code says how it ended
	return p.cmd.ProcessState.ExitCode()
}
