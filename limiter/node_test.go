package limiter

import (
	"context"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

func TestNode_wrong_type(t *testing.T) {
	server := redistest.Start(t)
	r := openRedis(t, server, 5*time.Second)
	at := now()
	r.topology.anyNode.breaker.now = func() moment { return at }
	p := dayPolicy(t, "mixed", FixedWindow, 100)
	if err := server.Client(t).RPush(context.Background(), r.RedisKey(p, "bad"), "x").Err(); err != nil {
		t.Fatal(err)
	}
	for range 2 * failuresInARow {
		at = at.add(failuresSpan)
		if _, err := r.Decide(context.Background(), []Check{{Policy: p, Key: "bad", Weight: 1}}); Kind(err) != "value" {
			t.Fatalf("the client with the bad key: %v", err)
		}
	}
	decide(t, r, Check{Policy: p, Key: "good", Weight: 1})
}
