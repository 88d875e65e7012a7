package overrides

import (
	"errors"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis/dial"
)

// TestLive_restart has Redis lose everything. A node that has missed a change is the first to restore.
func TestLive_restart(t *testing.T) {
	server := redistest.Start(t)
	node := func() *Live { return newNode(t, plain, dial.Standalone, server.Addr) }
	stale, a, b := node(), node(), node()
	put(t, a, Target{"api", "acme"}, Rule{Action: Limit, Limit: 5}, 0)
	put(t, a, Target{"api", "removed"}, Rule{Action: Block}, 0)
	refresh(t, stale)
	put(t, a, Target{"api", "acme"}, Rule{Action: Limit, Limit: 6}, time.Hour)
	redistest.Must(t, a.Remove(t.Context(), Target{"api", "removed"}))
	refresh(t, b)
	server.Kill()
	if err := b.Refresh(t.Context()); !errors.Is(err, limiter.ErrUndecided) {
		t.Errorf("without Redis: %v", err)
	}
	if _, err := b.Put(t.Context(), Target{Policy: "api"}, Rule{Action: Block}, 0); !errors.Is(err, limiter.ErrUndecided) {
		t.Errorf("without Redis: %v", err)
	}
	wantLimit(t, b, "api", "acme", 6)
	server.Run(t)
	for _, l := range []*Live{stale, b, stale, a} {
		redistest.WaitFor(t, "Redis is asked", func() error { return l.Refresh(t.Context()) })
	}
	newcomer := node()
	refresh(t, newcomer)
	for _, l := range []*Live{stale, a, b, newcomer} {
		wantLimit(t, l, "api", "acme", 6)
		redistest.ErrorIf(t, l.Len() != 1 || l.Find("api", key("acme")).Until.IsZero(), "it has %d overrides", l.Len())
	}
}

// TestLive_lost_entries loses the entries alone, and a value to another hand.
func TestLive_lost_entries(t *testing.T) {
	server := redistest.Start(t)
	a, b := newNode(t, plain, dial.Standalone, server.Addr), newNode(t, plain, dial.Standalone, server.Addr)
	put(t, a, Target{"api", "acme"}, Rule{Action: Limit, Limit: 5}, 0)
	client := server.Client(t)
	redistest.Must(t, client.Del(t.Context(), a.keys.entries).Err())
	refresh(t, b) // finds that entries are missing, and so restores nothing
	b.lookedAt, a.lookedAt = time.Time{}, time.Time{}
	refresh(t, b)
	refresh(t, a)
	refresh(t, b)
	wantLimit(t, b, "api", "acme", 5)

	client.HSet(t.Context(), a.keys.entries, "api:x", "nonsense")
	client.Set(t.Context(), a.keys.version, "9000000000000000 2", 0)
	refresh(t, b)
	redistest.Must(t, b.Remove(t.Context(), Target{"api", "acme"}))
	got := client.HLen(t.Context(), a.keys.entries).Val()
	redistest.ErrorIf(t, got != 1, "%d of another version are left", got)
}
