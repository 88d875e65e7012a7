package caddytest

import (
	"errors"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// Node is a running Caddy.
type Node struct {
	URL   string // of its site, without a slash at the end
	Admin string // of its admin API

	Log     *Log
	Client  *http.Client // follows no redirects and waits for at most 30s
	Command *exec.Cmd    // the process

	exited chan struct{}
}

// Start runs Caddy on a Caddyfile that uses {$PORT} and {$ADMIN}, until the test's end. Both are free ports.
// The variables of the environment are written as in a shell: "NAME=value".
func Start(t testing.TB, text string, env ...string) *Node {
	t.Helper()
	path := WriteCaddyfile(t, text)
	for range 3 {
		n := &Node{Client: newClient(), exited: make(chan struct{})}
		if n.run(t, path, env) {
			t.Cleanup(func() { n.Stop(t) })
			return n
		}
	}
	t.Fatal("no free ports")
	return nil
}

// run starts the process and waits until it serves. It returns false where its ports are taken.
func (n *Node) run(t testing.TB, path string, env []string) bool {
	t.Helper()
	site, admin := redistest.FreeAddr(t), redistest.FreeAddr(t)
	_, port, err := net.SplitHostPort(site)
	assert.Must(t, err)
	n.URL, n.Admin = "http://"+site, "http://"+admin
	n.Command = exec.Command(Binary(t), "run", "--config", path, "--adapter", "caddyfile")
	n.Command.Env = Environment(t, append(env, "PORT="+port, "ADMIN="+admin)...)
	log, file := OpenLog(t)
	defer file.Close() //nolint:errcheck // the process has its own
	n.Log = log
	n.Command.Dir, n.Command.Stdout, n.Command.Stderr = t.TempDir(), file, file
	assert.Must(t, n.Command.Start())
	go func() {
		_ = n.Command.Wait() // an error here is how Stop ends it
		close(n.exited)
	}()
	taken := false
	assert.WaitFor(t, "Caddy serves", func() error {
		select {
		case <-n.exited:
			if !strings.Contains(n.Log.String(), "address already in use") {
				t.Fatalf("Caddy exited: %s", n.Log)
			}
			taken = true
			return nil
		default:
		}
		if !n.Log.Has("serving initial configuration") {
			return errors.New("it has not said so")
		}
		return nil
	})
	return !taken
}

// Stop sends SIGTERM and waits until Caddy has exited. After 15s it kills the process. A
// panic or a data race in the log fails the test.
func (n *Node) Stop(t testing.TB) {
	t.Helper()
	n.Client.CloseIdleConnections()
	_ = n.Command.Process.Signal(syscall.SIGTERM) // it may have exited already
	select {
	case <-n.exited:
	case <-time.After(15 * time.Second):
		t.Error("Caddy does not stop when asked to")
		_ = n.Command.Process.Kill()
		<-n.exited
	}
	for _, word := range []string{"panic", "DATA RACE"} { // the second where CADDY_BINARY has the race detector
		if strings.Contains(n.Log.String(), word) {
			t.Errorf("Caddy's log has a %s:\n%s", word, n.Log)
		}
	}
}

// Goroutines returns the number of goroutines of the process.
func (n *Node) Goroutines(t testing.TB) int {
	t.Helper()
	n.Client.CloseIdleConnections()
	a := n.Send(t, http.MethodGet, n.Admin+"/debug/pprof/goroutine?debug=1", "")
	text, _, _ := strings.Cut(strings.TrimPrefix(a.Body, "goroutine profile: total "), "\n")
	count, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("the profile begins with %q", text)
	}
	return count
}
