package reliability

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestStop_requestsInFlight stops a node by the admin API, as caddy stop does, on a slow link to Redis. What ends within
// the grace period is settled. What is cut stays at its weight, as with clients that leave, and its places are free.
func TestStop_requestsInFlight(t *testing.T) {
	t.Parallel()
	const ending = 50
	server, ends, cut := redistest.Start(t), caddytest.NewHolder(t), caddytest.NewHolder(t)
	link := redistest.NewProxy(t, server.Addr)
	text := caddytest.Config(caddytest.PatientRedis(server), `redis_ratelimit {
		policy attempts { key same; limit 1000; window 24h; algorithm fixed_window; count_if status 401 }
		policy budget { match { not path /websocket }; key same; limit 100000; window 24h; algorithm fixed_window; weight 100; cost response_bytes }
		policy places { key same; max_concurrent 100; node_timeout 10m }
	}
	reverse_proxy /ends `+ends.Addr+"\nreverse_proxy "+cut.Addr)
	n := caddytest.Start(t, strings.Replace(text, server.Addr, link.Addr, 1))
	for range ending {
		ends.Begin(t, n, "/ends")
	}
	for _, path := range []string{"/", "/stream", "/websocket"} {
		cut.Begin(t, n, path)
	}
	link.Delay(100 * time.Millisecond)
	go func() { _, _ = n.Try(http.MethodPost, n.Admin+"/stop", "") }() // which answers when it has stopped
	redistest.Retry(t, "the node stops", func() (again bool, seen any) { return !n.Log.Has("servers shutting down"), n.Log })
	ends.EndAll()
	n.Stop(t)
	other := caddytest.Start(t, text)
	for policy, remaining := range map[string]string{"attempts": "999", "budget": "99600", "places": "100"} {
		a := other.Ask(t, http.MethodPost, "state", `{"policy":"`+policy+`","key":"same"}`)
		redistest.ErrorIf(t, !strings.Contains(a.Body, `"remaining":`+remaining+","), "got %v; want %s left", a, remaining)
	}
}

// TestReload_forced loads the same configuration anew, whose configuration Caddy keeps nowhere. Counts and connections
// to Redis go on, and counts do so over a restart.
func TestReload_forced(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	text := caddytest.Config("persist_config off\n"+caddytest.PatientRedis(server), "redis_ratelimit same 9 24h"+caddytest.ShowDecision)
	n := caddytest.Start(t, text)
	caddytest.CheckQuota(t, n.Get(t, "/"), 9, 8)
	before := caddytest.Connections(t, server)
	path := caddytest.WriteCaddyfile(t, caddytest.WithPorts(n, text))
	for left := int64(7); left > 4; left-- {
		output, err := caddytest.RunCaddy(t, nil, "reload", "--force", "--config", path, "--adapter", "caddyfile", "--address", strings.TrimPrefix(n.Admin, "http://"))
		redistest.FatalIf(t, err != nil, "the reload failed: %v: %s", err, output)
		n.Client.CloseIdleConnections()
		caddytest.CheckQuota(t, n.Get(t, "/"), 9, left)
	}
	loads := n.Log.Lines(func(l caddytest.LogLine) bool { return l.Message == "load complete" })
	redistest.ErrorIf(t, len(loads) != 3 || n.Log.Has("autosaved config"), "%d configurations were loaded, or one was kept: %s", len(loads), n.Log)
	for _, id := range before {
		after := caddytest.Connections(t, server)
		redistest.ErrorIf(t, !slices.Contains(after, id), "connection %s is gone; there were %v, now %v", id, before, after)
	}
	n.Stop(t)
	caddytest.CheckQuota(t, caddytest.Start(t, text).Get(t, "/"), 9, 4)
}
