package chaos

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// reloaded loads another configuration again and again. It checks that no connections and goroutines of
// earlier ones are left.
func reloaded(t *testing.T, r *row) {
	server := redistest.Start(t)
	with := plainly(server.Addr)
	with.reloads = true
	s := newStorm(t, with)
	n, times := s.running[0], lasting(100, 10)
	warmUp := func(from, to int) {
		for round := from; round < to; round++ {
			if a := n.Load(t, s.caddyfile(round)); a.Status != http.StatusOK {
				t.Fatalf("the reload failed: %v", a)
			}
		}
	}
	warmUp(1, 3)
	goroutines := n.Goroutines(t)
	s.begin(t)
	s.hold()
	open := len(caddytest.Connections(t, server))
	warmUp(3, 3+times)
	s.hold()
	now := len(caddytest.Connections(t, server))
	r.check(t, s, properties{outage: true})
	if r.elsewhere > r.sent/lasting(100, 10) {
		t.Errorf("Redis did not decide %d of %d requests", r.elsewhere, r.sent)
	}
	t.Logf("%d connections to Redis, before %d", now, open)
	if now > open+stormClients {
		t.Errorf("%d connections to Redis, before %d", now, open)
	}
	redistest.WaitFor(t, "there are no more goroutines than before", func() error {
		// Each connection of the pool may have kept one or two.
		if left := n.Goroutines(t); left > goroutines+4 {
			return fmt.Errorf("%d, before %d", left, goroutines)
		}
		return nil
	})
}

// clocksApart has two nodes on a Redis whose clock differs from theirs by 10 s. Go reads the time from
// the kernel, so that faketime cannot move a node's clock. Only the difference matters: a decision or a
// cached denial that used a node's clock would be wrong here. Nodes with different clocks would each
// differ from the server in the same way.
func clocksApart(t *testing.T, r *row) {
	server := redistest.StartAt(t, 10*time.Second)
	with := patiently(server.Addr)
	with.nodes = 2
	s := newStorm(t, with)
	s.begin(t)
	s.hold()
	s.hold()
	s.hold()
	r.check(t, s, properties{})
	if r.hotRedis != smallLimit {
		t.Errorf("both nodes together admitted %d of the hot key, want %d", r.hotRedis, smallLimit)
	}
}
