package failover

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/deny"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
)

// TestMemory_ban_bound has far more clients banned than there is room for: the bound holds, every place is
// counted once, and all are free again when the bans have ended.
func TestMemory_ban_bound(t *testing.T) {
	t.Parallel()
	const bound = 500
	now := int64(1_000_000_000_000)
	m := memory.NewOnClock(func() int64 { return now })
	m.Limit(bound, nil)
	p := storetest.NewPolicy(t, limiter.Settings{Name: "bound", Algorithm: limiter.FixedWindow, Limit: 1, Window: time.Minute, Ban: []time.Duration{time.Hour}})
	counted := func() (n int64) {
		for i := range m.TableOf(p).Shards {
			s := &m.TableOf(p).Shards[i]
			n += int64(len(s.Plain) + len(s.Seen) + len(s.Bans))
		}
		return n
	}
	flood := func(name string) {
		for i := range 5000 {
			for range 3 {
				storetest.Decide(t, m, limiter.Check{Policy: p, Key: limiter.EncodeKey(fmt.Sprint(name, i))})
			}
		}
		if m.Len() > bound || m.Len() != counted() {
			t.Errorf("%s: %d keys are counted, and %d are there; want at most %d", name, m.Len(), counted(), bound)
		}
	}
	flood("first")
	if n := int64(len(m.Banned("bound"))); n == 0 || n > bound {
		t.Errorf("%d clients are banned", n)
	}
	m.UnbanAll("bound")
	if n := len(m.Banned("bound")); n != 0 || m.Len() != counted() {
		t.Errorf("%d clients are banned, %d keys of %d counted", n, counted(), m.Len())
	}
	flood("second")
	now += 10 * int64(time.Hour/time.Microsecond)
	m.Prune()
	if m.Len() != 0 {
		t.Errorf("%d keys are left when all has ended", m.Len())
	}
}

// TestFailover_ban_bound has more clients banned on Redis than the deny cache and the memory for outages
// hold: both keep to their bounds, and every client stays banned.
func TestFailover_ban_bound(t *testing.T) {
	t.Parallel()
	const bound = 300
	m := memory.New()
	m.Limit(bound, nil)
	f := New(openRedis(t, redistest.Shared(t), 10*time.Second), m, Options{DenyAge: time.Second})
	p := hourBan(t, "bound", 1)
	for i := range 2000 {
		checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey(fmt.Sprint(i)), Weight: 2}}
		for n := range 3 {
			if _, err := f.Decide(context.Background(), checks); err != nil || checks[0].Result.Banned != (n > 0) {
				t.Fatalf("client %d, request %d: %+v, %v", i, n, checks[0].Result, err)
			}
		}
	}
	if m.Len() > bound {
		t.Errorf("%d keys are kept for outages, want at most %d", m.Len(), bound)
	}
	for i := range f.denied.Shards {
		if n := f.denied.Shards[i].Len(); n > deny.DenyShardSize {
			t.Errorf("%d denials are in a shard", n)
		}
	}
	if n, err := f.UnbanAll(context.Background(), "bound"); n != 2000 || err != nil {
		t.Errorf("%d bans lifted, %v", n, err)
	}
	for i := range f.denied.Shards {
		if n := f.denied.Shards[i].Len(); n > 0 {
			t.Errorf("%d denials are left in a shard", n)
		}
	}
}
