package failover

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/deny"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
)

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
