package reliability

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

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

// waitForNoStore loads a configuration without a store and waits until Redis has no connection any more.
func waitForNoStore(t *testing.T, n *caddytest.Node, server *redistest.Server) {
	t.Helper()
	n.Reload(t, caddytest.Config("", "respond ok"))
	redistest.WaitFor(t, "all connections are closed", func() error {
		if left := caddytest.Connections(t, server); len(left) > 0 {
			return fmt.Errorf("%v are left", left)
		}
		return nil
	})
}

// TestReload_betweenLimits loads other options of Redis while requests are between two limits. The second one
// is as exact for them as the first.
func TestReload_betweenLimits(t *testing.T) {
	t.Parallel()
	site := func(gate string) string { return gatedSite("limit 3\nwindow 24h", gate, "respond ok") }
	for change, other := range map[string]string{"timeout": "timeout 9s", "prefix": "timeout 10s\nkey_prefix other"} {
		for _, mode := range []string{"closed", "open"} {
			t.Run(change+" "+mode, func(t *testing.T) {
				t.Parallel()
				server, gate := redistest.Start(t), caddytest.NewHolder(t)
				text := caddytest.Config(strings.Replace(caddytest.PatientRedis(server), "timeout", "fail_mode "+mode+"\ntimeout", 1), site(gate.Addr))
				n := caddytest.Start(t, text)
				statuses := startGated(t, n, gate, 5)
				n.Reload(t, strings.Replace(text, "timeout 10s", other, 1))
				gate.EndAll()
				if got, want := statuses(), (map[int]int{http.StatusOK: 3, http.StatusTooManyRequests: 2}); !maps.Equal(got, want) {
					t.Errorf("got the statuses %v, want %v", got, want)
				}
				waitForNoStore(t, n, server)
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
			startRunning(t, n, upstream, "/")
			gate.EndAll()
			upstream.WaitRunning(t, 2)
			if a := n.Get(t, "/"); a.Status != http.StatusTooManyRequests {
				t.Errorf("got %v beyond the limit", a)
			}
			upstream.EndAll()
			if got := statuses(); got[http.StatusTooManyRequests] != 4 || got[http.StatusOK] != 1 {
				t.Errorf("got the statuses %v, want one of 200", got)
			}
			if _, most := upstream.Running(); most > 2 {
				t.Errorf("%d ran at once", most)
			}
			waitForNoStore(t, n, server)
		})
	}
}
