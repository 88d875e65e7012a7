package redis_test

import (
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

// TestLua54 has the scripts pass what they pass in Redis, under Lua 5.1, without an edit: the conformance suite, the
// traces of the units of nodes, and values that are no states, which fail alone by the clock of the server.
func TestLua54(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(t *testing.T){
		"suite":             func(t *testing.T) { storetest.Run(t, withLua54) },
		"random_traces":     func(t *testing.T) { storetest.Agree(t, withLua54, assert.Rounds[uint64](8, 400)) },
		"leases":            func(t *testing.T) { storetest.AgreeOnLeases(t, withLua54, assert.Rounds[uint64](6, 300)) },
		"concurrency":       func(t *testing.T) { concurrencyVectorsHold(t, redistest.StartLua54(t)) },
		"concurrency_twins": func(t *testing.T) { concurrencyTwinsAgree(t, redistest.StartLua54(t)) },
		"foreign_values":    func(t *testing.T) { foreignStringsFail(t, redistest.StartLua54(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// TestLua54_failure_behind has the second request of a batch fail, behind another one of two checks.
func TestLua54_failure_behind(t *testing.T) {
	t.Parallel()
	server := redistest.StartLua54(t)
	r, p := stores.Open(t, server), storetest.DayPolicy(t, "p", limiter.GCRA, 10)
	assert.Must(t, server.Client(t).Set(t.Context(), r.RedisKey(p, limiter.EncodeKey("bad")), "nonsense", 0).Err())
	take := func(keys ...string) *redis.Call {
		var checks []limiter.Check
		for _, key := range keys {
			checks = append(checks, limiter.Check{Policy: p, Key: limiter.EncodeKey(key), Weight: 1})
		}
		return redis.NewCall(redis.OpTake, checks)
	}
	passes, fails := take("a", "b"), take("c", "bad")
	r.Send(t.Context(), r.Topology.AnyNode, []*redis.Call{passes, fails})
	assert.ErrorIf(t, passes.Err != nil || !strings.Contains(fmt.Sprint(fails.Err), "FOREIGNVALUE"), "one ends with %v, the other with %v", passes.Err, fails.Err)
}

// withLua54 returns a store of each kind, whose Redis is one of Lua 5.4.
func withLua54(t testing.TB) []*storetest.Candidate {
	t.Helper()
	s, _ := stores.NewRedis(t, redistest.StartLua54(t))
	return []*storetest.Candidate{stores.OpenMemory(t), s}
}
