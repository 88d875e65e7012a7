package redis

import (
	"context"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
)

func TestKeyWriter_slotOf(t *testing.T) {
	t.Parallel()
	client := redistest.StartCluster(t)[0].Client(t)
	for _, naming := range []limiter.KeyFormat{{Prefix: "rl"}, {Prefix: "rl", Secret: "s"}} {
		p := storetest.DayPolicy(t, "slots", limiter.GCRA, 1)
		n := NewKeyWriter(naming)
		for _, key := range []string{"", "a", "203.0.113.9", "2001:db8::/64", "a|b", "%ip:1.2.3.4", "x%7Dy", "\x00\xff"} {
			want := client.ClusterKeySlot(context.Background(), string(n.Append(nil, p.ID, key))).Val()
			got := n.SlotOf(key)
			assert.ErrorIf(t, int64(got) != want, "%q: slot %d, Redis says %d", key, got, want)
		}
	}
}
