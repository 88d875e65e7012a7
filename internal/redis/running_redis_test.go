package redis_test

import (
	"context"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// runningNode is a process with a store of its own on a Redis that others use too.
type runningNode struct {
	*redis.Store
	t testing.TB
}

func newRunningNode(t testing.TB, server *redistest.Server) *runningNode {
	t.Helper()
	r := stores.OpenWithin(t, server, stores.Patience, limiter.KeyFormat{Prefix: "t"})
	return &runningNode{r, t}
}

// take decides a request of one check by Redis.
func (n *runningNode) take(p *limiter.Policy, weight int64) []limiter.Check {
	n.t.Helper()
	checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: weight}}
	_, err := n.Decide(context.Background(), checks)
	assert.FatalIf(n.t, err != nil, "%v", err)
	return checks
}

// settle waits until no message is on its way.
func (n *runningNode) settle() {
	batcher := &n.Topology.AnyNode.Batcher
	for pending := true; pending; <-time.After(20 * time.Microsecond) {
		batcher.Mu.Lock()
		pending = len(batcher.Unsettled.Quotas) > 0 // also releases that have ended their records
		batcher.Mu.Unlock()
		pending = pending || busy(n.Running)
	}
}

// busy reports whether a message is on its way or a state is due.
func busy(t *redis.Tracker) bool {
	for i := range t.Shards {
		s := &t.Shards[i]
		s.Mu.Lock()
		for _, r := range s.Records {
			if r.Inflight > 0 || r.Dirty {
				s.Mu.Unlock()
				return true
			}
		}
		s.Mu.Unlock()
	}
	return false
}

// TestRedis_Leave has a node end: others have its places at once, and a request that ends there later returns none.
func TestRedis_Leave(t *testing.T) {
	t.Parallel()
	server, p := redistest.Shared(t), storetest.ConcurrencyPolicy(t, 5)
	a, b, c := newRunningNode(t, server), newRunningNode(t, server), newRunningNode(t, server)
	first, second := a.take(p, 2), b.take(p, 3)
	a.ReleaseAllRunning()
	third := c.take(p, 2)
	assert.ErrorIf(t, !third[0].Result.Passes(), "the places of a node that has left are taken")
	a.EndRunning(first)
	a.settle()
	assert.ErrorIf(t, b.take(p, 1)[0].Result.Passes(), "a node that has left returns its places again")
	b.EndRunning(second)
	c.EndRunning(third)
	b.settle()
	c.settle()
}

// TestRedis_Inspect_concurrency shows what each node runs, and nothing of a foreign value.
func TestRedis_Inspect_concurrency(t *testing.T) {
	server := redistest.Shared(t)
	a, b := newRunningNode(t, server), newRunningNode(t, server)
	p := storetest.NewPolicy(t, limiter.Settings{Name: "running", MaxConcurrent: 9, NodeTimeout: stores.Patience})
	ctx, key := context.Background(), limiter.EncodeKey("k")
	running := [][]limiter.Check{a.take(p, 2), b.take(p, 3)}
	stored, err := a.Inspect(ctx, p, key)
	assert.FatalIf(t, err != nil || len(stored) != 1 || stored[0].Type != "hash" || stored[0].TTL <= 0 || stored[0].Value["running"] != int64(5),
		"%+v, %v", stored, err)
	nodes, _ := stored[0].Value["nodes"].([]map[string]any)
	found := map[any]any{}
	for _, n := range nodes {
		found[n["node"]] = n["running"]
	}
	assert.ErrorIf(t, found[a.NodeName()] != int64(2) || found[b.NodeName()] != int64(3) || len(found) != 2,
		"%+v", nodes)
	n, err := a.Reset(ctx, p, key)
	assert.ErrorIf(t, n != 1 || err != nil, "a reset found %d, %v", n, err)
	// This node's count is back with its next request, the other's with its next state.
	third := a.take(p, 4)
	r := third[0].Result
	assert.ErrorIf(t, !r.Passes() || r.Remaining != 3, "after the reset: %+v", r)
	a.EndRunning(third)
	a.EndRunning(running[0])
	b.EndRunning(running[1])
	a.settle()
	b.settle()
	for _, foreign := range []func(client *goredis.Client, name string){
		func(client *goredis.Client, name string) { client.Set(ctx, name, "text", 0) },
		func(client *goredis.Client, name string) { client.HSet(ctx, name, "all", "x") },
		func(client *goredis.Client, name string) { client.HSet(ctx, name, "all", strings.Repeat("\xff", 40)) },
	} {
		client, name := server.Client(t), a.RedisKey(p, key)
		client.Del(ctx, name)
		foreign(client, name)
		_, err := a.Decide(ctx, []limiter.Check{{Policy: p, Key: key}})
		assert.ErrorIf(t, limiter.Kind(err) != "value", "decided with the error %v", err)
		stored, err := a.Inspect(ctx, p, key)
		assert.ErrorIf(t, err != nil || len(stored) != 1, "%+v, %v", stored, err)
	}
}
