package redis_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/scripts"
)

// TestUpgrade_lost_serial refunds a take whose serial another version's node has dropped.
func TestUpgrade_lost_serial(t *testing.T) {
	r := stores.Open(t, redistest.Shared(t))
	p := storetest.NewPolicy(t, limiter.Settings{Name: "upgrade", Algorithm: limiter.GCRA, Limit: 1, Window: time.Hour, Burst: 10, Refunds: true})
	checks := storetest.Decide(t, r, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 5, Refundable: true})
	name := r.RedisKey(p, limiter.EncodeKey("k"))
	state := r.Client().Get(t.Context(), name).Val()
	assert.Must(t, r.Client().SetArgs(t.Context(), name, state[:16], goredis.SetArgs{KeepTTL: true}).Err())
	storetest.RefundIn(r, checks)
	got := storetest.Decide(t, r, limiter.Check{Policy: p, Key: limiter.EncodeKey("k")})[0].Result
	assert.ErrorIf(t, !got.Passes() || got.Remaining != 4, "%+v; want 4 left", got)
	assert.Equal(t, r.Client().StrLen(t.Context(), name).Val(), int64(16), "the length of the state")
}

// verbatimFragment runs before clock.lua and makes Redis 7 behave like an older one, whose scripts
// are replicated themselves: after TIME it refuses to write, unless the script first requests that
// its writes are replicated. Redis 6.2 does so with lua-replicate-commands off.
const verbatimFragment = `
local server, timed, effects = redis, false, false
local redis = {
  pcall = server.pcall,
  replicate_commands = function()
    effects = not timed
    return effects
  end,
  call = function(name, ...)
    local upper = string.upper(name)
    timed = timed or upper == 'TIME'
    if timed and not effects and (upper == 'SET' or upper == 'RPUSH') then
      error('Write commands not allowed after non deterministic commands')
    end
    return server.call(name, ...)
  end,
}
`

// TestRedis_DecideBeforeEffects decides on a Redis before 7 whose scripts are replicated verbatim.
func TestRedis_DecideBeforeEffects(t *testing.T) {
	t.Parallel()
	r := stores.OpenWithin(t, redistest.Shared(t), stores.Patience, limiter.KeyFormat{Prefix: "t"})
	clock := assert.NoError(scripts.Fragment(scripts.ClockFragment))(t)
	r.Scripts.Clock = verbatimFragment + clock
	for _, algorithm := range limiter.Algorithms() {
		policy := storetest.NewPolicy(t, limiter.Settings{Name: "p", Algorithm: algorithm, Limit: 2, Window: storetest.LongWindow(0)})
		got := ""
		for range 3 {
			checks := []limiter.Check{{Policy: policy, Key: limiter.EncodeKey("k"), Weight: 1}}
			_, err := r.Decide(context.Background(), checks)
			got += fmt.Sprint(err == nil && limiter.Allowed(checks), err, " ")
		}
		want := "true <nil> true <nil> false <nil> "
		assert.ErrorIf(t, got != want, "%s: got %s; want %s", algorithm, got, want)
	}
}

// olderFragment runs before clock.lua and makes Redis behave like 5, whose SET has no KEEPTTL.
const olderFragment = `
local server = redis
local redis = {
  pcall = function(name, ...)
    local options = {...}
    if name == 'SET' and options[3] == 'KEEPTTL' then
      return {err = 'ERR syntax error'}
    end
    return server.pcall(name, ...)
  end,
}
function redis.call(name, ...)
  local answer = redis.pcall(name, ...)
  if type(answer) == 'table' and answer.err then
    error(answer.err, 0)
  end
  return answer
end
`

// TestRedis_DecideWithoutKeepTTL decides on a Redis that is too old: the first take of a window writes, the
// next ones fail. The store reports it once, and no probe ends that outage.
func TestRedis_DecideWithoutKeepTTL(t *testing.T) {
	t.Parallel()
	reported := &stores.Reports{}
	server := redistest.Shared(t)
	r := stores.OpenStore(t, dial.Connection{Addresses: []string{server.Addr}, DB: server.DB, Timeout: stores.Patience}, redis.Setup{
		KeyFormat:  limiter.KeyFormat{Prefix: "t"},
		OnOutage:   func(err error) { reported.Add(limiter.Kind(err) + ": " + err.Error()) },
		OnRecovery: func(time.Duration) { reported.Add("recovery") },
	})
	clock := assert.NoError(scripts.Fragment(scripts.ClockFragment))(t)
	r.Scripts.Clock = olderFragment + clock
	policy := storetest.NewPolicy(t, limiter.Settings{Name: "p", Algorithm: limiter.FixedWindow, Limit: 2000, Window: storetest.LongWindow(0)})
	for range 2 {
		_, _ = r.Decide(context.Background(), []limiter.Check{{Policy: policy, Key: limiter.EncodeKey("k"), Weight: 1}}) // the store reports it
	}
	const want = "incompatible: rate limit store could not decide: this server does not know KEEPTTL of SET, which Redis has since 6.0: ERR syntax error"
	stores.WaitReported(t, reported, want)
	waitProbes(t, r.Topology.AnyNode)
	stores.WaitReported(t, reported, want)
}
