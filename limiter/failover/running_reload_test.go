package failover

import (
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
)

// TestFailover_concurrency_reload puts a Redis before requests that run already, as a reload does. They count on their
// node until they end.
func TestFailover_concurrency_reload(t *testing.T) {
	t.Parallel()
	server, m, p := redistest.Shared(t), memory.New(), storetest.ConcurrencyPolicy(t, 2)
	open := func(m *memory.Store) *Store {
		return New(newTestRedis(t, server, 10*time.Second, limiter.KeyFormat{Prefix: "t"}), m, Options{})
	}
	old, node, other := New(nil, m, Options{}), open(m), open(memory.New())
	before := [][]limiter.Check{decideRunning(t, old, p, "k", 1), decideRunning(t, old, p, "k", 1)}
	want := func(f *Store, passes bool) []limiter.Check {
		t.Helper()
		checks := decideRunning(t, f, p, "k", 1)
		if limiter.Allowed(checks) != passes {
			t.Errorf("%+v; want it to pass: %t", checks[0].Result, passes)
		}
		return checks
	}
	want(node, false)
	old.EndRunning(before[0])
	first := want(node, true)
	want(node, false)
	second := want(other, true) // which knows nothing of the one that is left
	want(other, false)
	old.EndRunning(before[1])
	want(node, false)
	other.EndRunning(second)
	waitCounted(t, node.shared, p, 1)
	third := want(node, true)
	want(node, false)
	node.EndRunning(first)
	node.EndRunning(third)
	waitCounted(t, node.shared, p, 0)
}
