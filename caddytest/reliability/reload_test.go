package reliability

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestReload_counts reloads before each request: with another header, another limit, which goes on from what is used, and
// another window, which begins anew.
func TestReload_counts(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, global, source string) {
		n := caddytest.Start(t, caddytest.Config(global, "respond old"))
		for i, step := range []struct {
			limit, left int64 // left -1: denied
			window      string
		}{
			{5, 4, "24h"}, {5, 3, "24h"}, {5, 2, "24h"}, {5, 1, "24h"}, {10, 5, "24h"}, {5, -1, "24h"}, {3, -1, "24h"}, {20, 14, "24h"}, {1, 0, "48h"}, {1, -1, "48h"},
		} {
			n.Reload(t, caddytest.Config(global, fmt.Sprintf("redis_ratelimit same %d %s\nheader X-Round %d%s", step.limit, step.window, i, caddytest.ShowDecision)))
			if step.left < 0 {
				caddytest.CheckRefusal(t, n.Get(t, "/"), http.StatusTooManyRequests)
			} else {
				caddytest.CheckQuota(t, n.Get(t, "/").Want(t, http.StatusOK, "allowed "+source), step.limit, step.left)
			}
		}
	})
}

func TestReload_failed(t *testing.T) {
	t.Parallel()
	const site = "redis_ratelimit same 5 24h" + caddytest.ShowDecision
	for source, global := range caddytest.Stores(t) {
		mistakes := map[string]struct{ text, complaint string }{
			"a syntax error":             {caddytest.Config(global, site) + ":1 {\n", "expecting '}'"},
			"a wrong option":             {caddytest.Config(global, "redis_ratelimit same 5 0s"), "window"},
			"two meanings of a name":     {caddytest.Config(global, "redis_ratelimit /a same 5 24h\nredis_ratelimit /b same 6 24h"), "without a name of their own"},
			"another module's error":     {caddytest.Config(global, site+"\ntls /nowhere.pem /nowhere.key"), "nowhere.pem"},
			"an unresolved placeholder":  {caddytest.Config("redis_ratelimit {\nredis redis://:{env.NOWHERE}@127.0.0.1:1\n}", site), "env.NOWHERE"},
			"a missing certificate file": {caddytest.Config("redis_ratelimit {\nredis {\naddress 127.0.0.1:1\ntls {\nca /nowhere.pem\n}\n}\n}", site), "nowhere.pem"},
		}
		t.Run(source, func(t *testing.T) {
			n := caddytest.Start(t, caddytest.Config(global, site))
			n.Get(t, "/").Want(t, http.StatusOK, "allowed "+source)
			for _, mistake := range mistakes {
				n.Load(t, mistake.text).Want(t, http.StatusBadRequest, "*"+mistake.complaint+"*")
			}
			caddytest.CheckQuota(t, n.Get(t, "/"), 5, 3)
			n.Reload(t, caddytest.Config(global, site+"\nheader X-Round 2"))
			caddytest.CheckQuota(t, n.Get(t, "/"), 5, 2)
		})
	}
}

// TestReload_failedStart loads configurations whose server cannot listen. Caddy starts apps in any order,
// so that only some of them start the limits first.
func TestReload_failedStart(t *testing.T) {
	taken := assert.NoError(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = taken.Close() }) // it has no connections
	const site = "redis_ratelimit {query.k} 5 24h" + caddytest.ShowDecision
	failing := caddytest.Config("redis_ratelimit {\nmemory {\nmax_keys 1\n}\n}", site) + "http://" + taken.Addr().String() + " {\nrespond x\n}\n"
	caddytest.OnEachStore(t, site, func(t *testing.T, n *caddytest.Node, source string) {
		n.Get(t, "/?k=first").Want(t, http.StatusOK, "allowed "+source)
		for range 12 {
			n.Load(t, failing).Want(t, http.StatusBadRequest, "*address already in use*") // it cannot listen
			n.Ask(t, "GET", "policies", "").Want(t, http.StatusOK, `*"store":{"kind":"`+source+`"*"max_keys":1000000*`)
		}
		for i := range 3 {
			n.Get(t, fmt.Sprint("/?k=", i))
		}
		n.CheckMetric(t, "memory_keys", 4)
		n.CheckMetric(t, "memory_overflows_total", 0)
	})
}

// TestReload_leaks alternates between two clients. Each reload opens one and closes one, with failed reloads between.
func TestReload_leaks(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	text := func(i int) string {
		timeout := fmt.Sprintf("%ds", 10+i%2)
		return caddytest.Config(strings.Replace(caddytest.PatientRedis(server), "10s", timeout, 1), "redis_ratelimit same 1000 24h"+caddytest.ShowDecision)
	}
	n := caddytest.Start(t, text(0))
	turn := func(i int) {
		n.Reload(t, text(i))
		n.Get(t, "/").Want(t, http.StatusOK, "allowed redis")
		broken := caddytest.Config("redis_ratelimit {\nredis redis://:{env.NOWHERE}@127.0.0.1:1\n}", "redis_ratelimit same 5 24h")
		n.Load(t, broken).Want(t, http.StatusBadRequest, caddytest.Any)
	}
	for i := range 3 {
		turn(i)
	}
	goroutines := n.Goroutines(t)
	for i := range 20 {
		turn(i)
	}
	// One connection serves requests, a second one the ping at the start, a third one the first look at overrides.
	assert.Retry(t, "no more goroutines and connections than before", func() (again bool, seen any) {
		now, open := n.Goroutines(t), server.Connections(t)
		return now > goroutines+2 || len(open) > 3, fmt.Sprintf("%d goroutines, before %d; connections %v", now, goroutines, open)
	})
	caddytest.CheckQuota(t, n.Get(t, "/"), 1000, 1000-24)
}

// TestReload_requestsInFlight loads other Redis settings, and then a configuration without limits, while responses
// stream. Their refunds and charges go to the store that decided them.
func TestReload_requestsInFlight(t *testing.T) {
	t.Parallel()
	upstream := caddytest.NewHolder(t)
	server := redistest.Start(t)
	site := `redis_ratelimit {
		policy attempts { key same; limit 100; window 24h; algorithm gcra; count_if status 401 }
		policy budget { key same; limit 1000; window 24h; weight 50; cost {http.reverse_proxy.header.X-Tokens-Used} 50 }
	}
	reverse_proxy ` + upstream.Addr + ` { flush_interval -1 }`
	n := caddytest.Start(t, caddytest.Config(caddytest.PatientRedis(server), site))
	await := beginAll(t, upstream, n, slices.Repeat([]string{"/?tokens=10", "/stream?tokens=90"}, 5)...)
	n.WaitForRefund(t, "attempts", "same", 100-5) // those that stream are refunded by their status
	n.WaitForRefund(t, "budget", "same", 1000-10*50)
	n.Reload(t, caddytest.Config(strings.Replace(caddytest.PatientRedis(server), "timeout 10s", "timeout 9s", 1), site))
	n.Reload(t, caddytest.Config(caddytest.PatientRedis(server), "respond none"))
	upstream.EndAll()
	await()
	n.Reload(t, caddytest.Config(caddytest.PatientRedis(server), site))
	n.WaitForRefund(t, "attempts", "same", 100)
	n.WaitForRefund(t, "budget", "same", 1000-5*10-5*90)
}

// TestStop_requestsInFlight stops a node by the admin API, as caddy stop does, on a slow link to Redis. What ends within
// the grace period is settled. What is cut stays at its weight, as with clients that leave, and its places are free.
func TestStop_requestsInFlight(t *testing.T) {
	t.Parallel()
	assert.Retry(t, "what ends in time is settled", func() (again bool, seen any) { // which a busy machine needs more than a second for
		ended, left := stopInFlight(t)
		want := map[string]int64{"attempts": 999, "budget": 99_600, "places": 100}
		if inTime := ended < time.Second/2; inTime {
			assert.Equal(t, left, want, "what is left")
			return false, nil
		}
		return !maps.Equal(left, want), left
	})
}

// stopInFlight stops a node with requests in flight, and returns after which time those have ended that the test ends, and what is
// left of the policies.
func stopInFlight(t *testing.T) (ended time.Duration, left map[string]int64) {
	t.Helper()
	const ending = 50
	server, ends, cut := redistest.Start(t), caddytest.NewHolder(t), caddytest.NewHolder(t)
	link := redistest.NewProxy(t, server.Addr)
	text := caddytest.Config(caddytest.PatientRedis(server), `redis_ratelimit {
		policy attempts { key same; limit 1000; window 400d; algorithm fixed_window; count_if status 401 }
		policy budget { match { not path /websocket }; key same; limit 100000; window 400d; algorithm fixed_window; weight 100; cost response_bytes }
		policy places { key same; max_concurrent 100; node_timeout 10m }
	}
	reverse_proxy /ends `+ends.Addr+"\nreverse_proxy "+cut.Addr)
	n := caddytest.Start(t, strings.Replace(text, server.Addr, link.Addr, 1))
	var held []*caddytest.HeldRequest
	for range ending {
		held = append(held, ends.Begin(t, n, "/ends"))
	}
	for _, path := range []string{"/", "/stream", "/websocket"} {
		cut.Begin(t, n, path)
	}
	link.Delay(100 * time.Millisecond)
	stopped := time.Now()
	go func() { _, _ = n.Try(http.MethodPost, n.Admin+"/stop", "") }() // which answers when it has stopped
	assert.Retry(t, "the node stops", func() (again bool, seen any) { return !n.Log.Has("servers shutting down"), n.Log })
	ends.EndAll()
	for _, r := range held {
		<-r.Ended
	}
	ended = time.Since(stopped)
	n.Stop(t)
	other := caddytest.Start(t, text)
	left = map[string]int64{}
	for _, policy := range []string{"attempts", "budget", "places"} {
		left[policy] = other.Remaining(t, policy, "same")
	}
	return ended, left
}

// TestReload_forced loads the same configuration anew, whose configuration Caddy keeps nowhere. Counts and connections
// to Redis go on, and counts do so over a restart.
func TestReload_forced(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	text := caddytest.Config("persist_config off\n"+caddytest.PatientRedis(server), "redis_ratelimit same 9 24h"+caddytest.ShowDecision)
	n := caddytest.Start(t, text)
	caddytest.CheckQuota(t, n.Get(t, "/"), 9, 8)
	before := server.Connections(t)
	path := caddytest.WriteCaddyfile(t, caddytest.WithPorts(n, text))
	for left := int64(7); left > 4; left-- {
		address := strings.TrimPrefix(n.Admin, "http://")
		caddytest.Run{}.Caddy(t, "reload", "--force", "--config", path, "--adapter", "caddyfile", "--address", address).Want(t, 0)
		n.AwaitReload(t)
		caddytest.CheckQuota(t, n.Get(t, "/"), 9, left)
	}
	loads := n.Log.Lines(func(l caddytest.LogLine) bool { return l.Message == "load complete" })
	assert.ErrorIf(t, len(loads) != 3 || n.Log.Has("autosaved config"), "%d configurations were loaded, or one was kept: %s", len(loads), n.Log)
	for _, id := range before {
		after := server.Connections(t)
		assert.ErrorIf(t, !slices.Contains(after, id), "connection %s is gone; there were %v, now %v", id, before, after)
	}
	n.Stop(t)
	caddytest.CheckQuota(t, caddytest.Start(t, text).Get(t, "/"), 9, 4)
}

func TestReload_otherSettings(t *testing.T) {
	n, server := caddytest.OnRedis(t, "timeout 10s", "redis_ratelimit same 1000 24h"+caddytest.ShowDecision)
	n.Get(t, "/").Want(t, http.StatusOK, "allowed redis")
	before := server.Connections(t)
	n.Reload(t, caddytest.Config(strings.Replace(caddytest.PatientRedis(server), "10s", "11s", 1), "redis_ratelimit same 1000 24h"+caddytest.ShowDecision))
	caddytest.CheckQuota(t, n.Get(t, "/"), 1000, 998)
	assert.Retry(t, "the old connections are closed", func() (again bool, seen any) {
		after := server.Connections(t)
		return slices.ContainsFunc(before, func(id string) bool { return slices.Contains(after, id) }), after
	})
	n.Reload(t, caddytest.Config("", "redis_ratelimit same 1000 24h"+caddytest.ShowDecision))
	n.Get(t, "/").Want(t, http.StatusOK, "allowed memory")
	waitForNoConnections(t, server)
}

// beginAll begins a request for each path, and returns a function that waits until all have ended with status 200.
func beginAll(t *testing.T, upstream *caddytest.Holder, n *caddytest.Node, paths ...string) (await func()) {
	t.Helper()
	var held []*caddytest.HeldRequest
	for _, path := range paths {
		held = append(held, upstream.Begin(t, n, path))
	}
	return func() {
		t.Helper()
		for i, r := range held {
			<-r.Ended
			assert.Equal(t, r.Status, http.StatusOK, "%s: the status", paths[i])
		}
	}
}
