package waiting

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// places is a scene of eight places and 32 clients, whose requests take a second.
func places(t *testing.T) *scene {
	t.Helper()
	return newScene(t, time.Second, time.Second/10)
}

// evenly has 32 clients use all nodes of a scene alike.
func (s *scene) evenly(begin func(node int, group, user string)) {
	for i := range 32 {
		begin(i%len(s.urls), "all", "")
	}
}

// reportUse logs what of the places was used, and returns it in percent.
func (s *scene) reportUse(t *testing.T, what string) float64 {
	t.Helper()
	starts, mean, longest := s.waitOf("all")
	use := 100 * s.use()
	t.Logf("%s: %.2f%% of the places were used, %d starts, mean wait %.2f s, longest %.2f s", what, use, starts, mean, longest)
	return use
}

// TestSpeed has three nodes share eight places, one node, and HAProxy, at the same time.
func TestSpeed(t *testing.T) {
	long(t)
	t.Run("three nodes", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, "--appendonly", "yes")
		s, y := places(t), watch(t, server)
		s.startNodes(t, 3, server)
		s.measure(t, s.evenly, 10*time.Second, 120*time.Second, y)
		calls := y.report(t, "3 nodes, 8 places, 1 s")
		assert.ErrorIf(t, calls > 60, "%.1f calls a second, want at most 60", calls)
		assert.ErrorIf(t, float64(y.claims)/y.seconds() > 40, "%d claims in %.0f s, want at most 40 a second", y.claims, y.seconds())
		use := s.reportUse(t, "3 nodes")
		assert.ErrorIf(t, use < 98, "%.2f%% of the places were used, want 98%%", use)
	})
	t.Run("one node", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, "--appendonly", "yes")
		s, y := places(t), watch(t, server)
		s.startNodes(t, 1, server)
		s.measure(t, s.evenly, 10*time.Second, 120*time.Second, y)
		y.report(t, "1 node, 8 places, 1 s")
		use := s.reportUse(t, "1 node")
		assert.ErrorIf(t, use < 98, "%.2f%% of the places were used, want 98%%", use)
	})
	t.Run("HAProxy", func(t *testing.T) {
		t.Parallel()
		s := places(t)
		s.startHAProxy(t)
		s.measure(t, s.evenly, 10*time.Second, 120*time.Second, nil)
		s.reportUse(t, "HAProxy")
	})
}

// TestSpeed_short has services of 20 ms, between which there is hardly time for a round trip.
func TestSpeed_short(t *testing.T) {
	long(t)
	server := redistest.Start(t, "--appendonly", "yes")
	s, y := newScene(t, 20*time.Millisecond, 2*time.Millisecond), watch(t, server)
	s.startNodes(t, 3, server)
	s.measure(t, s.evenly, 2*time.Second, 20*time.Second, y)
	y.report(t, "3 nodes, 8 places, 20 ms")
	s.reportUse(t, "3 nodes, 20 ms")
}

// startHAProxy starts HAProxy as the one node of the scene. Its queue is in the order of arrival.
func (s *scene) startHAProxy(t *testing.T) {
	t.Helper()
	binary, err := exec.LookPath("haproxy")
	if err != nil {
		t.Skip("haproxy is not installed")
	}
	addr, path := redistest.FreeAddr(t), filepath.Join(t.TempDir(), "haproxy.cfg")
	config := fmt.Sprintf("defaults\nmode http\ntimeout connect 5s\ntimeout client 10m\ntimeout server 10m\ntimeout queue 10m\n"+
		"frontend in\nbind %s\ndefault_backend b\nbackend b\nserver s %s maxconn %s\n", addr, s.backend, strconv.Itoa(s.limit))
	assert.Must(t, os.WriteFile(path, []byte(config), 0o600))
	command := exec.Command(binary, "-db", "-f", path)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	assert.Must(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	s.urls = append(s.urls, "http://"+addr)
	assert.WaitFor(t, "HAProxy serves", func() error {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err
	})
}
