package limiter

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestRedis_Refund_long_tail moves up as many later entries as a refund may rewrite.
func TestRedis_Refund_long_tail(t *testing.T) {
	server := redistest.Start(t)
	r, client := openRedis(t, server, 5*time.Second), server.Client(t)
	p := dayPolicy(t, "log", "sliding_window_log", 10_000)
	if err := p.AllowRefunds(); err != nil {
		t.Fatal(err)
	}
	const later = logRewritten
	first := decide(t, r, Check{Policy: p, Key: "k", Weight: 1, Reserve: true})
	for range later / 100 {
		var calls []*call
		for range 100 {
			calls = append(calls, newCall(opTake, []Check{{Policy: p, Key: "k", Weight: 1}}))
		}
		r.send(context.Background(), r.topology.anyNode, calls)
	}
	r.Refund(first)
	redistest.WaitFor(t, "the entry is gone", func() error {
		n, err := client.LLen(t.Context(), r.RedisKey(p, "k")).Result()
		if err == nil && n != later {
			err = fmt.Errorf("%d entries", n)
		}
		return err
	})
	entries := client.LRange(t.Context(), r.RedisKey(p, "k"), 0, -1).Val()
	for i, entry := range entries {
		if total := int(entry[9])<<8 | int(entry[10]); total != i+1 {
			t.Fatalf("entry %d of %d has the total %d", i, len(entries), total)
		}
	}
	if ttl := client.PTTL(t.Context(), r.RedisKey(p, "k")).Val(); ttl <= 0 {
		t.Errorf("the list has a TTL of %v", ttl)
	}
	if left := decide(t, r, Check{Policy: p, Key: "k"})[0].Result.Remaining; left != 10_000-later {
		t.Errorf("%d remain, want %d", left, 10_000-later)
	}
}
