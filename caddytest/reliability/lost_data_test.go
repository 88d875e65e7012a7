package reliability

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// linesOf returns the lines of a node's log whose message begins with a text.
func linesOf(n *caddytest.Node, begin string) []caddytest.LogLine {
	return n.Log.Lines(func(l caddytest.LogLine) bool { return strings.HasPrefix(l.Message, begin) })
}

const overridesMarker = "rl:{%!overrides}:marker"

// sharedAdvice is what is said of the default key_prefix.
const sharedAdvice = "all sites on this Redis with the same names count together; give each its own key_prefix"

// TestFirstAnswer has nodes say once where the limits live, also if Redis comes later and after reloads.
func TestFirstAnswer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	config := caddytest.Config(caddytest.PatientRedis(server), "redis_ratelimit {client_ip} 9 24h\nrespond ok")
	server.Kill()
	n := caddytest.Start(t, config)
	waitForLines(t, n, "overrides cannot be read", 1)
	assert.Equal(t, len(linesOf(n, "redis answers: the limits live there")), 0, "lines while Redis is down")
	server.Run(t)
	waitForLines(t, n, "redis answers: the limits live there", 1)
	n.Reload(t, strings.Replace(config, "9 24h", "10 24h", 1))
	line := linesOf(n, "redis answers")[0]
	assert.ErrorIf(t, line.Level != "info" || !strings.Contains(line.Text, `"mode":"standalone","addresses":["`+server.Addr+`"]`), "the line is %v", line)
	assert.ErrorIf(t, !strings.Contains(line.Text, sharedAdvice), "the line says nothing of the default key_prefix: %v", line)
	info := server.Client(t).Info(t.Context(), "server").Val()
	_, version, _ := strings.Cut(info, "redis_version:") // of Valkey that of the Redis that it replaces
	version, _, _ = strings.Cut(version, "\r\n")
	if _, valkey, found := strings.Cut(info, "valkey_version:"); found {
		valkey, _, _ = strings.Cut(valkey, "\r\n")
		version = "valkey " + valkey
	}
	if version >= "7" { // whose scripts know it
		assert.ErrorIf(t, !strings.Contains(line.Text, `"version":"`+version+`"`), "the line of Redis %s is %v", version, line)
	}
	waitForLines(t, n, "redis answers", 1)
	n.Reload(t, caddytest.Config("", "redis_ratelimit {client_ip} 9 24h\nrespond ok"))
	waitForLines(t, n, "no redis is configured: the limits live in this process", 1)
}

// TestLostData flushes Redis while two nodes use it: each says it once for each loss, and a metric counts them. A
// restart without data is an outage, and no loss.
func TestLostData(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	config := caddytest.Config(caddytest.PatientRedis(server), "redis_ratelimit {client_ip} 9 24h\nrespond ok")
	nodes := []*caddytest.Node{caddytest.Start(t, config), caddytest.Start(t, config)}
	const lost = "redis has lost its data: "
	for _, n := range nodes {
		waitForLines(t, n, "redis answers", 1)
		n.CheckMetric(t, "data_losses_total", 0)
	}
	client := server.Client(t)
	week := client.PTTL(t.Context(), overridesMarker).Val()
	assert.ErrorIf(t, week <= 6*24*time.Hour || week > 7*24*time.Hour, "the marker's TTL is %v", week)
	for round := 1; round <= 2; round++ {
		client.FlushAll(t.Context())
		for _, n := range nodes {
			waitForLines(t, n, lost, round)
			n.CheckMetric(t, "data_losses_total", float64(round))
		}
	}
	server.Kill()
	for _, n := range nodes {
		waitForLines(t, n, "overrides cannot be read", 1)
	}
	server.Run(t)
	assert.WaitFor(t, "a new marker", func() error { return server.Client(t).Get(t.Context(), overridesMarker).Err() })
	for _, n := range nodes {
		n.Get(t, "/").Want(t, http.StatusOK, caddytest.Any)
		assert.Equal(t, len(linesOf(n, lost)), 2, "lines after a restart without data")
		assert.Equal(t, linesOf(n, lost)[0].Level, "warn", "the level")
	}
}

func waitForLines(t *testing.T, n *caddytest.Node, begin string, want int) {
	t.Helper()
	assert.WaitFor(t, fmt.Sprintf("%d lines %q", want, begin), func() error {
		if got := len(linesOf(n, begin)); got != want {
			return fmt.Errorf("the log has %d of them", got)
		}
		return nil
	})
}
