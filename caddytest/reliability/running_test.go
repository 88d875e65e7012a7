package reliability

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

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

// startRunning sends a request that the upstream holds.
func startRunning(t *testing.T, n *caddytest.Node, upstream *caddytest.Holder, path string) {
	t.Helper()
	before, _ := upstream.Running()
	ctx, leave := context.WithCancel(context.Background())
	t.Cleanup(leave)
	request := caddytest.GetRequest(ctx, t, n.URL+path)
	if path == "/websocket" {
		for name, value := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="} {
			request.Header.Set(name, value)
		}
	}
	go func() {
		response, err := n.Client.Transport.RoundTrip(request)
		if err == nil {
			context.AfterFunc(ctx, func() { _ = response.Body.Close() }) // of a WebSocket
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close() // Caddy waits for both ends of a WebSocket
		}
	}()
	upstream.WaitRunning(t, before+1)
}

// waitForAnswer waits until the answer to a request that ends at once begins so. A node that runs as much as
// allowed by itself denies without a query.
func waitForAnswer(t *testing.T, n *caddytest.Node, want string) {
	t.Helper()
	redistest.WaitFor(t, "the answer "+want, func() error {
		if a := n.Get(t, "/now"); !strings.HasPrefix(a.Body, want) {
			return fmt.Errorf("got %v", a)
		}
		return nil
	})
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
	goroutines, connections := n.Goroutines(t), len(caddytest.Connections(t, server))
	for name, other := range others {
		startRunning(t, n, upstream, "/websocket")
		startRunning(t, n, upstream, "/")
		startRunning(t, n, upstream, "/stream")
		waitForAnswer(t, n, "denied ")
		n.Reload(t, other)
		if name != "no policy" {
			n.CheckMetric(t, `running{policy="places"}`, 3)
			if a := n.Get(t, "/now"); !strings.HasPrefix(a.Body, "denied ") {
				t.Errorf("%s: got %v", name, a)
			}
		}
		for range 3 {
			upstream.EndOne()
		}
		upstream.WaitRunning(t, 0)
		n.Reload(t, text)
		waitForAnswer(t, n, "allowed redis")
		n.CheckMetric(t, `running{policy="places"}`, 0)
		redistest.WaitFor(t, "nothing runs by Redis", func() error {
			if a := n.Ask(t, http.MethodPost, "state", `{"policy":"places","key":"same"}`); !strings.Contains(a.Body, `"remaining":3`) {
				return fmt.Errorf("after %s: %v", name, a)
			}
			return nil
		})
	}
	redistest.WaitFor(t, "nothing is left", func() error {
		if now := n.Goroutines(t); now > goroutines+6 {
			return fmt.Errorf("%d goroutines, before %d", now, goroutines)
		}
		if now := len(caddytest.Connections(t, server)); now > connections+4 {
			return fmt.Errorf("%d connections to Redis, before %d", now, connections)
		}
		return nil
	})
}

// TestReload_running_withoutStore keeps requests running in process over a configuration that limits nothing. The
// next one that does knows them.
func TestReload_running_withoutStore(t *testing.T) {
	t.Parallel()
	upstream := caddytest.NewHolder(t)
	text := caddytest.Config("", runningSite(2, upstream.Addr))
	n := caddytest.Start(t, text)
	startRunning(t, n, upstream, "/websocket")
	startRunning(t, n, upstream, "/")
	waitForAnswer(t, n, "denied ")
	n.Reload(t, caddytest.Config("", "respond none"))
	n.Reload(t, text)
	if a := n.Get(t, "/now"); !strings.HasPrefix(a.Body, "denied ") {
		t.Errorf("got %v", a)
	}
	upstream.EndOne()
	waitForAnswer(t, n, "allowed memory")
	upstream.EndOne()
	upstream.WaitRunning(t, 0)
	n.Reload(t, caddytest.Config("", "respond none"))
	n.Reload(t, text)
	waitForAnswer(t, n, "allowed memory")
}

// TestOutage_running lets requests run while Redis is away, by each fail mode, and counts them when it is
// back.
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
			n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\nredis redis://"+server.Addr+"\ntimeout 1s\nfail_mode "+mode+"\n}", runningSite(2, upstream.Addr)))
			caddytest.WaitForRedis(t, n, "/now")
			startRunning(t, n, upstream, "/")
			server.Kill()
			waitForAnswer(t, n, want.during)
			for range want.after - 1 {
				startRunning(t, n, upstream, "/stream")
			}
			waitForAnswer(t, n, want.beyond)
			n.CheckMetric(t, `running{policy="places"}`, float64(want.after))
			server.Run(t) // empty
			if mode == "closed" {
				caddytest.WaitForRedis(t, n, "/now")
				startRunning(t, n, upstream, "/")
			}
			waitForAnswer(t, n, "denied ")
			upstream.EndAll()
			waitForAnswer(t, n, "allowed redis")
			n.CheckMetric(t, `running{policy="places"}`, 0)
		})
	}
}
