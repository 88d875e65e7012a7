package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// wantKind decides, and wants an error of a kind on one line.
func wantKind(t *testing.T, r *redis.Store, kind string) {
	t.Helper()
	p := storetest.DayPolicy(t, "kinds", limiter.GCRA, 1_000)
	_, err := r.Decide(context.Background(), []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1}})
	if !errors.Is(err, limiter.ErrUndecided) {
		t.Fatalf("got %v, want one of kind %s", err, kind)
	}
	assert.ErrorIf(t, limiter.Kind(err) != kind || strings.ContainsAny(err.Error(), "\r\n"),
		"got %q of kind %s, want %s on one line", err, limiter.Kind(err), kind)
}

func TestRedis_Decide_kinds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--maxmemory", "1mb", "--maxmemory-policy", "noeviction")
	client, ctx := server.Client(t), context.Background()
	check := func(kind string) {
		t.Helper()
		wantKind(t, stores.Open(t, server), kind)
	}
	for i := 0; client.Set(ctx, fmt.Sprint("fill", i), strings.Repeat("x", 10_000), 0).Err() == nil; i++ {
		continue
	}
	check("oom")
	client.FlushDB(ctx)
	client.ConfigSet(ctx, "maxmemory", "0")
	client.ReplicaOf(ctx, "127.0.0.1", "1")
	check("readonly")
	client.ConfigSet(ctx, "replica-serve-stale-data", "no")
	check("masterdown")
	client.ReplicaOf(ctx, "NO", "ONE")
	client.ConfigSet(ctx, "requirepass", "secret")
	check("auth")
	server.Kill()
	check("refused")
}

// TestRedis_Decide_renamed has a command that the script needs and the server calls otherwise.
func TestRedis_Decide_renamed(t *testing.T) {
	t.Parallel()
	wantKind(t, stores.Open(t, redistest.Start(t, "--rename-command", "GET", "")), "command")
}

// TestRedis_Decide_busy has a foreign script that does not end.
func TestRedis_Decide_busy(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	redistest.Busy(t, server)
	wantKind(t, stores.Open(t, server), "busy")
}

// TestRedis_Decide_clusterDown has a Cluster that is down, once refusing reads and once not.
func TestRedis_Decide_clusterDown(t *testing.T) {
	t.Parallel()
	for _, reads := range []string{"no", "yes"} {
		server := redistest.StartDownCluster(t, "--cluster-allow-reads-when-down", reads)
		wantKind(t, stores.OpenClusterWithin(t, []*redistest.Server{server}, stores.Patience), "clusterdown")
	}
}
