package chaos

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

const (
	lookLimit    = 20
	lookInFlight = 10 // on each node
)

// lookSite counts failures, of which the path /403 is one, in requests that look first. Who is not decided by Redis is refused.
const lookSite = "redis_ratelimit {client_ip} 20 400d {\nname failures\ncount_if status 403\nin_flight 10\n}\nrespond /403 403\nrespond welcome"

// TestChaos_looks has clients of two nodes fail as fast as they can, while replies of Redis are lost, and one of the nodes is killed and
// started again. What fails is at most the limit, and what may be on its way on each node that ran; and no look stays behind. It
// runs before the rows that play beside each other: as fast as they can is much for these.
func TestChaos_looks(t *testing.T) {
	server := redistest.Start(t)
	start := func() (*caddytest.Node, *redistest.Proxy) {
		proxy := redistest.NewProxy(t, server.Addr)
		return caddytest.Start(t, caddytest.Config(caddytest.RedisAt(proxy.Addr, "timeout 2s\nfail_mode closed"), lookSite)), proxy
	}
	stays, staysProxy := start()
	killed, killedProxy := start()
	stays.Await(t, "/", http.StatusOK, "welcome")
	killed.Await(t, "/", http.StatusOK, "welcome")
	var failed atomic.Int64
	var clients sync.WaitGroup
	end := make(chan struct{})
	storm := func(n *caddytest.Node) {
		for i := range 8 {
			clients.Go(func() {
				for {
					select {
					case <-end:
						return
					case <-time.After(requestPace()):
					}
					path := "/403"
					if i%2 == 0 {
						path = "/"
					}
					if a, err := n.Try(http.MethodGet, n.URL+path, ""); err == nil && a.Status == http.StatusForbidden {
						failed.Add(1)
					}
				}
			})
		}
	}
	storm(stays)
	storm(killed)
	for begun := time.Now(); time.Since(begun) < stormPhase(); {
		staysProxy.CutNextReply()
		killedProxy.CutNextReply()
		<-time.After(20 * time.Millisecond)
	}
	assert.Must(t, killed.Command.Process.Kill())
	again, _ := start()
	storm(again)
	<-time.After(stormPhase())
	close(end)
	clients.Wait()
	const most = lookLimit + 3*lookInFlight
	assert.ErrorIf(t, failed.Load() < lookLimit/2 || failed.Load() > most, "%d requests failed, of at most %d", failed.Load(), most)
	for _, n := range []*caddytest.Node{stays, again} {
		assert.Retry(t, "no look is on its way", func() (again bool, seen any) {
			text := n.Ratelimit(t, "policies").Stdout
			return !strings.Contains(text, "looking here  0\n"), text
		})
	}
}
