package failover

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/queue"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/wire"
)

// This file has the scripts pass the conformance suite under Lua 5.4, without an edit. TestStores has them pass it in
// Redis, under Lua 5.1.

func TestLua54(t *testing.T) {
	t.Parallel()
	storetest.Run(t, withLua54)
}

func TestLua54_agrees_on_random_traces(t *testing.T) {
	t.Parallel()
	storetest.Agree(t, withLua54)
}

func TestLua54_lease_agrees(t *testing.T) {
	t.Parallel()
	storetest.AgreeOnLeases(t, withLua54)
}

// TestLua54_concurrency plays the traces of the units of nodes.
func TestLua54_concurrency(t *testing.T) {
	t.Parallel()
	concurrencyVectorsHold(t, redistest.StartLua54(t))
	concurrencyTwinsAgree(t, redistest.StartLua54(t))
}

// TestLua54_foreign_values has requests fail alone, by the clock of the server.
func TestLua54_foreign_values(t *testing.T) {
	t.Parallel()
	foreignStringsFail(t, redistest.StartLua54(t))
}

// TestLua54_failure_behind has the second request of a batch fail, behind another one of two checks.
func TestLua54_failure_behind(t *testing.T) {
	t.Parallel()
	server := redistest.StartLua54(t)
	r, p := openRedis(t, server, 10*time.Second), storetest.DayPolicy(t, "p", limiter.GCRA, 10)
	noError(t, server.Client(t).Set(t.Context(), r.RedisKey(p, limiter.EncodeKey("bad")), "nonsense", 0).Err())
	take := func(keys ...string) *queue.Call {
		var checks []limiter.Check
		for _, key := range keys {
			checks = append(checks, limiter.Check{Policy: p, Key: limiter.EncodeKey(key), Weight: 1})
		}
		return queue.NewCall(wire.OpTake, checks)
	}
	passes, fails := take("a", "b"), take("c", "bad")
	r.Send(t.Context(), r.Topology.AnyNode, []*queue.Call{passes, fails})
	redistest.ErrorIf(t, passes.Err != nil || !strings.Contains(fmt.Sprint(fails.Err), "FOREIGNVALUE"), "one ends with %v, the other with %v", passes.Err, fails.Err)
}

// withLua54 returns a store of each kind, whose Redis is one of Lua 5.4.
func withLua54(t testing.TB) []*storetest.Store {
	t.Helper()
	return []*storetest.Store{inMemory(t), redisStore(t, redistest.StartLua54(t)).Store}
}
