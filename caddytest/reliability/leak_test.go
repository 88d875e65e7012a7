package reliability

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

func TestReload_equalSettings(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := caddytest.Start(t, caddytest.Config(caddytest.PatientRedis(server), "redis_ratelimit same 1000 24h"+caddytest.ShowDecision))
	caddytest.CheckAdmitted(t, n.Get(t, "/"), "redis")
	before := caddytest.Connections(t, server)
	for i := range 5 {
		n.Reload(t, caddytest.Config(caddytest.PatientRedis(server), fmt.Sprintf("redis_ratelimit same %d 24h%s", 1001+i, caddytest.ShowDecision)))
		caddytest.CheckAdmitted(t, n.Get(t, "/"), "redis")
	}
	// The ping of a reload opens another connection where the first one is busy.
	for _, id := range before {
		if after := caddytest.Connections(t, server); !slices.Contains(after, id) {
			t.Errorf("connection %s is gone; there were %v, now %v", id, before, after)
		}
	}
}

func TestReload_otherSettings(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := caddytest.Start(t, caddytest.Config(caddytest.PatientRedis(server), "redis_ratelimit same 1000 24h"+caddytest.ShowDecision))
	caddytest.CheckAdmitted(t, n.Get(t, "/"), "redis")
	before := caddytest.Connections(t, server)
	n.Reload(t, caddytest.Config(strings.Replace(caddytest.PatientRedis(server), "10s", "11s", 1), "redis_ratelimit same 1000 24h"+caddytest.ShowDecision))
	caddytest.CheckQuota(t, n.Get(t, "/"), 1000, 998)
	redistest.WaitFor(t, "the old connections are closed", func() error {
		after := caddytest.Connections(t, server)
		for _, id := range before {
			if slices.Contains(after, id) {
				return fmt.Errorf("there were %v, now %v", before, after)
			}
		}
		return nil
	})
	n.Reload(t, caddytest.Config("", "redis_ratelimit same 1000 24h"+caddytest.ShowDecision))
	caddytest.CheckAdmitted(t, n.Get(t, "/"), "memory")
	redistest.WaitFor(t, "all connections are closed", func() error {
		if left := caddytest.Connections(t, server); len(left) > 0 {
			return fmt.Errorf("%v are left", left)
		}
		return nil
	})
}

// TestReload_leaks alternates between two clients. Each reload opens one and closes one, with failed
// reloads between.
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
		caddytest.CheckAdmitted(t, n.Get(t, "/"), "redis")
		broken := caddytest.Config("redis_ratelimit {\nredis redis://:{env.NOWHERE}@127.0.0.1:1\n}", "redis_ratelimit same 5 24h")
		if a := n.Load(t, broken); a.Status != http.StatusBadRequest {
			t.Fatalf("got %v for a wrong configuration", a)
		}
	}
	for i := range 3 {
		turn(i)
	}
	goroutines := n.Goroutines(t)
	for i := range 20 {
		turn(i)
	}
	// One connection serves requests, a second one the ping at the start, a third one the first look at overrides.
	redistest.WaitFor(t, "no more goroutines and connections than before", func() error {
		now, open := n.Goroutines(t), caddytest.Connections(t, server)
		if now > goroutines+2 || len(open) > 3 {
			return fmt.Errorf("%d goroutines, before %d; connections %v", now, goroutines, open)
		}
		return nil
	})
	caddytest.CheckQuota(t, n.Get(t, "/"), 1000, 1000-24)
}
