package reliability

import (
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// runningSite lets so many requests run. Nothing but their end frees their places within a test: the node
// timeout is ten minutes.
func runningSite(limit int, upstream string) string {
	return "redis_ratelimit {\nname places\nkey same\nmax_concurrent " + strconv.Itoa(limit) + "\nnode_timeout 10m\n}\n" +
		"@now path /now\nrespond @now \"{http.redis_ratelimit.decision} {http.redis_ratelimit.source}\"\n" +
		"reverse_proxy " + upstream + " {\nstream_close_delay 1h\ntransport http {\nkeepalive off\n}\n}\nhandle_errors {\nrespond \"{http.redis_ratelimit.decision} {http.redis_ratelimit.source}\"\n}"
}

// waitForAnswer waits until the answer to a request that ends at once begins so. A node that runs as much as
// allowed by itself denies without a query.
func waitForAnswer(t *testing.T, n *caddytest.Node, want string) {
	t.Helper()
	n.Await(t, "/now", 0, want+"*")
}

// TestReload_running keeps requests running over reloads: with the same settings, other settings of Redis,
// and without the policy. They count until they end, and leave nothing behind.
func TestReload_running(t *testing.T) {
	t.Parallel()
	server, upstream := redistest.Start(t), caddytest.NewHolder(t)
	global := caddytest.PatientRedis(server)
	text := caddytest.Config(global, runningSite(3, upstream.Addr))
	others := map[string]string{
		"same settings": strings.Replace(text, "{http.redis_ratelimit.source}", "{http.redis_ratelimit.source}{query.none}", 1),
		"other Redis":   strings.Replace(text, "timeout 10s", "timeout 9s", 1),
		"no policy":     caddytest.Config("", "respond none"),
		"in process":    caddytest.Config("", runningSite(3, upstream.Addr)),
	}
	n := caddytest.Start(t, text)
	waitForAnswer(t, n, "allowed redis")
	goroutines, connections := n.Goroutines(t), len(server.Connections(t))
	for name, other := range others {
		upstream.Begin(t, n, "/websocket")
		upstream.Begin(t, n, "/")
		upstream.Begin(t, n, "/stream")
		waitForAnswer(t, n, "denied ")
		n.Reload(t, other)
		if name != "no policy" {
			n.CheckMetric(t, `running{policy="places"}`, 3)
			n.Get(t, "/now").Want(t, 0, "denied *")
		}
		for range 3 {
			upstream.EndOne()
		}
		upstream.WaitRunning(t, 0)
		n.Reload(t, text)
		waitForAnswer(t, n, "allowed redis")
		n.CheckMetric(t, `running{policy="places"}`, 0)
		n.WaitForRefund(t, "places", "same", 3) // nothing runs by Redis
	}
	awaitGoroutines(t, n, goroutines+6)
	assert.Retry(t, "connections to Redis have ended", func() (again bool, seen any) {
		now := len(server.Connections(t))
		return now > connections+4, now
	})
}

// TestReload_running_withoutStore keeps requests running in process over a configuration that limits nothing. The
// next one that does knows them.
func TestReload_running_withoutStore(t *testing.T) {
	t.Parallel()
	upstream := caddytest.NewHolder(t)
	text := caddytest.Config("", runningSite(2, upstream.Addr))
	n := caddytest.Start(t, text)
	upstream.Begin(t, n, "/websocket")
	upstream.Begin(t, n, "/")
	waitForAnswer(t, n, "denied ")
	n.Reload(t, caddytest.Config("", "respond none"))
	n.Reload(t, text)
	n.Get(t, "/now").Want(t, 0, "denied *")
	upstream.EndOne()
	waitForAnswer(t, n, "allowed memory")
	upstream.EndOne()
	upstream.WaitRunning(t, 0)
	n.Reload(t, caddytest.Config("", "respond none"))
	n.Reload(t, text)
	waitForAnswer(t, n, "allowed memory")
}

// TestOutage_running lets requests run while Redis is away, by each fail mode, and counts them when it is back.
func TestOutage_running(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]struct {
		during, beyond string
		after          int // that run when Redis is back
	}{
		"local":  {"allowed fallback", "denied ", 2},
		"open":   {"failed_open redis", "failed_open redis", 3}, // of 2
		"closed": {"failed_closed redis", "failed_closed redis", 1},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			server, upstream := redistest.Start(t), caddytest.NewHolder(t)
			n := caddytest.Start(t, caddytest.Config(caddytest.RedisAt(server.Addr, "timeout 10s\nfail_mode "+mode), runningSite(2, upstream.Addr)))
			caddytest.WaitForRedis(t, n, "/now")
			upstream.Begin(t, n, "/")
			server.Kill()
			waitForAnswer(t, n, want.during)
			for range want.after - 1 {
				upstream.Begin(t, n, "/stream")
			}
			waitForAnswer(t, n, want.beyond)
			n.CheckMetric(t, `running{policy="places"}`, float64(want.after))
			server.Run(t) // empty
			if mode == "closed" {
				caddytest.WaitForRedis(t, n, "/now")
				upstream.Begin(t, n, "/")
			}
			waitForAnswer(t, n, "denied ")
			upstream.EndAll()
			waitForAnswer(t, n, "allowed redis")
			n.CheckMetric(t, `running{policy="places"}`, 0)
		})
	}
}

// gatedSite has a slow handler between two limits.
func gatedSite(second, gate, end string) string {
	return "route {\nredis_ratelimit {\nname first\nkey same\nlimit 100\nwindow 24h\n}\n" +
		"@gated path /gated*\nforward_auth @gated " + gate + " {\nuri /gate\n}\n" +
		"redis_ratelimit {\nname second\nkey same\n" + second + "\n}\n" + end + "\n}"
}

// startGated sends requests that wait at the gate, and returns the function that waits for their statuses.
func startGated(t *testing.T, n *caddytest.Node, gate *caddytest.Holder, requests int) (statuses func() map[int]int) {
	t.Helper()
	var sent sync.WaitGroup
	var mu sync.Mutex
	counts := map[int]int{}
	for range requests {
		sent.Go(func() {
			a := n.Get(t, "/gated")
			mu.Lock()
			defer mu.Unlock()
			counts[a.Status]++
		})
	}
	gate.WaitRunning(t, requests)
	return func() map[int]int {
		sent.Wait()
		return counts
	}
}

// waitForNoConnections waits until Redis has no connection.
func waitForNoConnections(t *testing.T, server *redistest.Server) {
	t.Helper()
	assert.Retry(t, "all connections are closed", func() (again bool, seen any) {
		left := server.Connections(t)
		return len(left) > 0, fmt.Sprintf("%v are left", left)
	})
}

// TestReload_betweenLimits loads other options of Redis while requests are between two limits. The second one
// is as exact for them as the first.
func TestReload_betweenLimits(t *testing.T) {
	t.Parallel()
	for change, other := range map[string]string{"timeout": "timeout 9s", "prefix": "timeout 10s\nkey_prefix other"} {
		for _, mode := range []string{"closed", "open"} {
			t.Run(change+" "+mode, func(t *testing.T) {
				t.Parallel()
				server, gate := redistest.Start(t), caddytest.NewHolder(t)
				text := caddytest.Config(strings.Replace(caddytest.PatientRedis(server), "timeout", "fail_mode "+mode+"\ntimeout", 1),
					gatedSite("limit 3\nwindow 24h", gate.Addr, "respond ok"))
				n := caddytest.Start(t, text)
				statuses := startGated(t, n, gate, 5)
				n.Reload(t, strings.Replace(text, "timeout 10s", other, 1))
				gate.EndAll()
				if got, want := statuses(), (map[int]int{http.StatusOK: 3, http.StatusTooManyRequests: 2}); !maps.Equal(got, want) {
					t.Errorf("got the statuses %v, want %v", got, want)
				}
				n.Reload(t, caddytest.Config("", "respond ok"))
				waitForNoConnections(t, server)
			})
		}
	}
}

// TestReload_betweenRunning does the same with a limit of running requests: those of both configurations count
// together, for as long as they run.
func TestReload_betweenRunning(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"closed", "open"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			server, gate, upstream := redistest.Start(t), caddytest.NewHolder(t), caddytest.NewHolder(t)
			text := caddytest.Config(strings.Replace(caddytest.PatientRedis(server), "timeout", "fail_mode "+mode+"\ntimeout", 1),
				gatedSite("max_concurrent 2\nnode_timeout 10m", gate.Addr, "reverse_proxy "+upstream.Addr))
			n := caddytest.Start(t, text)
			statuses := startGated(t, n, gate, 5)
			n.Reload(t, strings.Replace(text, "timeout 10s", "timeout 9s", 1))
			upstream.Begin(t, n, "/")
			gate.EndAll()
			upstream.WaitRunning(t, 2)
			n.Get(t, "/").Want(t, http.StatusTooManyRequests, caddytest.Any)
			assert.Retry(t, "all others are denied while both run", func() (again bool, seen any) {
				denied := len(n.Log.Lines(func(l caddytest.LogLine) bool { return l.Message == "request denied" }))
				return denied < 5, denied
			})
			upstream.EndAll()
			got := statuses()
			assert.ErrorIf(t, got[http.StatusTooManyRequests] != 4 || got[http.StatusOK] != 1, "got the statuses %v, want one of 200", got)
			if _, most := upstream.Running(); most > 2 {
				t.Errorf("%d ran at once", most)
			}
			n.Reload(t, caddytest.Config("", "respond ok"))
			waitForNoConnections(t, server)
		})
	}
}

// awaitGoroutines waits until there are at most so many goroutines.
func awaitGoroutines(t *testing.T, n *caddytest.Node, most int) {
	t.Helper()
	assert.Retry(t, "goroutines have ended", func() (again bool, seen any) {
		now := n.Goroutines(t)
		return now > most, now
	})
}
