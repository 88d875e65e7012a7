package reliability

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestNetwork_distantRedis has a round trip of 40ms under the default timeout of 100ms, with TLS and a
// password. Connecting takes several round trips, so that the first requests of a crowd may be decided
// elsewhere, and some whenever a busy machine loses 60ms.
func TestNetwork_distantRedis(t *testing.T) {
	authority := redistest.NewAuthority(t)
	address, args := authority.ServeTLS(t)
	redistest.Start(t, append(args, "--requirepass", "secret")...)
	proxy := redistest.NewProxy(t, address)
	proxy.Delay(40 * time.Millisecond)
	n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\nredis {\naddress "+proxy.Addr+"\npassword {env.REDIS_PASSWORD}\ntls {\nca "+authority.CA+"\n}\n}\n}",
		"redis_ratelimit same 1000000 24h"+caddytest.ShowDecision), "REDIS_PASSWORD=secret")
	redistest.WaitFor(t, "Redis decides all of 320 requests in a row", func() error {
		if elsewhere := caddytest.DecidedElsewhere(t, n, 16, 20); elsewhere > 0 {
			return fmt.Errorf("%d were decided elsewhere\n%v", elsewhere, n.Log.Lines(caddytest.Ours))
		}
		return nil
	})
}

// TestNetwork_lostReply cuts the connection between a decision of Redis and its reply. The request counts
// at most once.
func TestNetwork_lostReply(t *testing.T) {
	t.Parallel()
	const limit, cuts = 1000, 5
	proxy := redistest.NewProxy(t, redistest.Start(t).Addr)
	n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\nredis redis://"+proxy.Addr+"\ntimeout 10s\nfail_mode closed\n}", "redis_ratelimit same 1000 24h"+caddytest.ShowDecision))
	admitted, lost := 0, 0
	for i := range 10 * cuts {
		if i%10 == 5 {
			proxy.CutNextReply()
		}
		switch a := n.Get(t, "/"); a.Status {
		case http.StatusOK:
			admitted++
		case http.StatusServiceUnavailable:
			lost++
		default:
			t.Fatalf("got %v", a)
		}
	}
	last := n.Get(t, "/")
	remaining, err := strconv.Atoi(last.Header.Get("X-Ratelimit-Remaining"))
	if err != nil {
		t.Fatalf("got %v", last)
	}
	if counted := limit - remaining - 1; lost != cuts || counted < admitted || counted > admitted+cuts {
		t.Errorf("%d were admitted, %d lost and %d counted; want %d lost, and each counted at most once", admitted, lost, counted, cuts)
	}
}
