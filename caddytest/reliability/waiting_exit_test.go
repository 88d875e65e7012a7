package reliability

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// startToExit starts a node whose servers end by these global options.
func startToExit(t *testing.T, option, end, upstream string) *caddytest.Node {
	t.Helper()
	return caddytest.Start(t, strings.Replace(caddytest.Config(option, waitingSite(1, upstream)), "grace_period 1s", end, 1))
}

// awaitLog waits until a node has logged a message.
func awaitLog(t *testing.T, n *caddytest.Node, message string) {
	t.Helper()
	assert.Retry(t, "a message in the log", func() (again bool, seen any) { return !n.Log.Has(message), message })
}

// TestExit_waiting ends Caddy while requests wait. Until the servers stop all goes on, and who waits is refused a second before
// the grace period ends.
func TestExit_waiting(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		assert.Retry(t, "all are answered", func() (again bool, seen any) { // a busy machine may need longer than that second
			cut := exitWaiting(t, option)
			return cut > 0, cut
		})
	})
}

// exitWaiting ends a Caddy, checks the answers to requests that wait, and returns how many have none.
func exitWaiting(t *testing.T, option string) (cut int) {
	t.Helper()
	const delay, grace = 4 * time.Second, 3 * time.Second
	upstream := caddytest.NewHolder(t)
	n := startToExit(t, option, "shutdown_delay 4s\ngrace_period 3s", upstream.Addr)
	upstream.Begin(t, n, "/")
	answers := func(times int, path string, headers ...string) func() []caddytest.Response {
		responses := tryWaiting(t, n, times, path, headers...)
		return func() []caddytest.Response {
			whole, missing := responses()
			cut += missing
			return whole
		}
	}
	first, waiting := answers(1, "/"), answers(5, "/quick")
	calls := answers(2, "/quick", "Content-Type: application/grpc")
	began := time.Now()
	assert.Must(t, n.Command.Process.Signal(syscall.SIGTERM))
	awaitLog(t, n, "shutdown scheduled")
	late := answers(1, "/quick")
	upstream.EndOne()
	upstream.WaitRunning(t, 1) // who waited first
	n.CheckMetric(t, "held_requests", 8)
	for _, a := range both(waiting, late)() {
		caddytest.CheckRefusal(t, a, http.StatusServiceUnavailable).Want(t, 0, caddytest.Any, "Retry-After: 1")
	}
	ended := time.Since(began)
	assert.ErrorIf(t, ended < delay+grace-time.Second, "the waits end after %v", ended)
	wantAll(t, calls(), "Grpc-Status: 14")
	upstream.EndAll()
	wantAll(t, first())
	return cut
}

// TestExit_waiting_started ends Caddy while requests wait whose turn comes in time: all are answered.
func TestExit_waiting_started(t *testing.T) {
	stop := func(n *caddytest.Node) error {
		go func() { _, _ = n.Try(http.MethodPost, n.Admin+"/stop", "") }() // is answered at the end, or not any more
		return nil
	}
	signal := func(n *caddytest.Node) error { return n.Command.Process.Signal(syscall.SIGTERM) }
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		for name, test := range map[string]struct {
			exit func(n *caddytest.Node) error
			end  string
		}{
			"long grace period":     {signal, "grace_period 1h"},
			"no grace period":       {signal, ""},
			"stop by the admin API": {stop, "grace_period 1h"},
		} {
			upstream := caddytest.NewHolder(t)
			n := startToExit(t, option, test.end, upstream.Addr)
			r := upstream.Begin(t, n, "/")
			waiting := beginWaiting(t, n, 5, "/quick")
			assert.Must(t, test.exit(n))
			awaitLog(t, n, "servers shutting down")
			upstream.EndOne()
			<-r.Ended
			assert.Equal(t, r.Status, http.StatusOK, "%s: the status of the request that ran", name)
			wantAll(t, waiting())
		}
	})
}

// TestExit_waiting_short ends Caddy with a grace period of no more than the second in which answers are sent.
func TestExit_waiting_short(t *testing.T) {
	t.Parallel()
	assert.Retry(t, "all that wait are refused", func() (again bool, seen any) { // a busy machine may need longer than that second
		upstream := caddytest.NewHolder(t)
		n := startToExit(t, "", "grace_period 1s", upstream.Addr)
		upstream.Begin(t, n, "/")
		waiting := tryWaiting(t, n, 5, "/quick")
		assert.Must(t, n.Command.Process.Signal(syscall.SIGTERM))
		refused, cut := waiting()
		for _, a := range refused {
			caddytest.CheckRefusal(t, a, http.StatusServiceUnavailable)
		}
		return cut > 0, cut
	})
}
