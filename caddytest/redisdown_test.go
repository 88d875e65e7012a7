package caddytest

import (
	"net/http"
	"testing"
	"time"

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
	const site = "redis_ratelimit same 2 24h" + showDecision
	for name, global := range nowhere(t) {
		t.Run(name, func(t *testing.T) {
			path := writeCaddyfile(t, config(global, site))
			for _, verb := range []string{"adapt", "validate"} {
				begin := time.Now()
				output, err := command(t, []string{"PORT=1", "ADMIN=127.0.0.1:1"}, verb, "--config", path, "--adapter", "caddyfile")
				if err != nil || time.Since(begin) > 5*time.Second {
					t.Errorf("caddy %s: %v after %v\n%s", verb, err, time.Since(begin), output)
				}
			}
			n := start(t, config(global, site))
			checkAdmitted(t, n.get(t, "/"), "fallback")
			n.reload(t, config(global, site+"\nheader X-Round 2"))
			checkAdmitted(t, n.get(t, "/"), "fallback")
			a := n.get(t, "/")
			checkRefusal(t, a, http.StatusTooManyRequests)
			if a.header.Get("X-Round") != "2" {
				t.Errorf("got %v of the configuration before the reload", a)
			}
		})
	}
}

// TestRedisDown_startsLater starts Caddy before Redis.
func TestRedisDown_startsLater(t *testing.T) {
	server := redistest.Start(t)
	server.Kill()
	n := start(t, config("redis_ratelimit {\nredis redis://"+server.Addr+"\n}", "redis_ratelimit {query.k} 1000000 24h"+showDecision))
	checkAdmitted(t, n.get(t, "/?k=before"), "fallback")
	server.Run(t)
	waitForRedis(t, n, "/?k=after")
	checkOutageLog(t, n)
}
