package reliability

import (
	"net/http"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// nowhere are global options of Redis servers that are down: nothing listens, or nothing replies.
func nowhere(t *testing.T) map[string]string {
	t.Helper()
	paused := redistest.Start(t)
	paused.Pause(t)
	refusing := redistest.FreeAddr(t)
	return map[string]string{
		"refusing": "redis_ratelimit {\nredis redis://" + refusing + "\n}",
		"hanging":  "redis_ratelimit {\nredis redis://" + paused.Addr + "\n}",
		"cluster":  "redis_ratelimit {\nredis {\nmode cluster\naddress " + refusing + " " + paused.Addr + "\n}\n}",
		"sentinel": "redis_ratelimit {\nredis {\nmode sentinel\nmaster m\naddress " + refusing + " " + paused.Addr + "\n}\n}",
		"socket":   "redis_ratelimit {\nredis unix:///nowhere.sock\n}",
	}
}

func TestRedisDown_commands(t *testing.T) {
	t.Parallel()
	const site = "redis_ratelimit same 2 24h" + caddytest.ShowDecision
	for name, global := range nowhere(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := caddytest.WriteCaddyfile(t, caddytest.Config(global, site))
			for _, verb := range []string{"adapt", "validate"} {
				output, err := caddytest.RunCaddy(t, []string{"PORT=1", "ADMIN=127.0.0.1:1"}, verb, "--config", path, "--adapter", "caddyfile")
				if err != nil {
					t.Errorf("caddy %s: %v\n%s", verb, err, output)
				}
			}
			n := caddytest.Start(t, caddytest.Config(global, site))
			caddytest.CheckAdmitted(t, n.Get(t, "/"), "fallback")
			n.Reload(t, caddytest.Config(global, site+"\nheader X-Round 2"))
			caddytest.CheckAdmitted(t, n.Get(t, "/"), "fallback")
			a := n.Get(t, "/")
			caddytest.CheckRefusal(t, a, http.StatusTooManyRequests)
			if a.Header.Get("X-Round") != "2" {
				t.Errorf("got %v of the configuration before the reload", a)
			}
		})
	}
}

// TestRedisDown_startsLater starts Caddy before Redis.
func TestRedisDown_startsLater(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Kill()
	n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\nredis redis://"+server.Addr+"\n}", "redis_ratelimit {query.k} 1000000 24h"+caddytest.ShowDecision))
	caddytest.CheckAdmitted(t, n.Get(t, "/?k=before"), "fallback")
	server.Run(t)
	caddytest.WaitForRedis(t, n, "/?k=after")
	caddytest.CheckOutageLog(t, n)
}
