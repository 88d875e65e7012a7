package failover

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/wire"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis/health"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/scripts"
)

// This file has nodes side by side whose buckets have a serial, and nodes from before, whose script
// is in testdata.

// olderNode returns a store whose buckets have states of two numbers alone.
func olderNode(t *testing.T, server *redistest.Server) *redis.Store {
	t.Helper()
	bucket, err := os.ReadFile("testdata/bucket_of_two_numbers.lua")
	noError(t, err)
	text := ""
	for _, name := range []string{scripts.ClockFragment, "prelude", "kernels", "", "batch"} {
		fragment := string(bucket)
		if name != "" {
			if fragment, err = scripts.Fragment(name); err != nil {
				t.Fatal(err)
			}
		}
		text += fragment + "\n"
	}
	r := openRedis(t, server, 10*time.Second)
	r.Scripts.Always = true
	r.Scripts.Built = map[wire.KernelSet]*wire.Script{wire.KernelSetOf(kernel.Named(limiter.GCRA)): {Text: text, Sha: goredis.NewScript(text).Hash()}}
	return r
}

// upgradePolicy returns a policy of ten units, one of which drains in an hour.
func upgradePolicy(t *testing.T) *limiter.Policy {
	t.Helper()
	return storetest.NewPolicy(t, limiter.Settings{Name: "upgrade", Algorithm: limiter.GCRA, Limit: 1, Window: time.Hour, Burst: 10, Refunds: true})
}

// wantLeft takes a unit and compares what is left.
func wantLeft(t *testing.T, r *redis.Store, p *limiter.Policy, refundable bool, want int64) {
	t.Helper()
	c := storetest.Decide(t, r, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Refundable: refundable})
	got := c[0].Result
	redistest.ErrorIf(t, !got.Passes() || got.Remaining != want, "%+v; want %d left", got, want)
}

// wantSize compares the length of the stored state.
func wantSize(t *testing.T, r *redis.Store, p *limiter.Policy, want int64) {
	t.Helper()
	got := r.Client().StrLen(t.Context(), r.RedisKey(p, limiter.EncodeKey("k"))).Val()
	redistest.ErrorIf(t, got != want, "a state of %d bytes; want %d", got, want)
}

func TestUpgrade_without_refunds(t *testing.T) {
	server := redistest.Shared(t)
	older, newer, p := olderNode(t, server), openRedis(t, server, 10*time.Second), upgradePolicy(t)
	for i, r := range []*redis.Store{older, newer, older, newer, newer, older} {
		wantLeft(t, r, p, false, int64(9-i))
		wantSize(t, r, p, 16)
	}
}

func TestUpgrade_old_state(t *testing.T) {
	server := redistest.Shared(t)
	older, newer, p := olderNode(t, server), openRedis(t, server, 10*time.Second), upgradePolicy(t)
	wantLeft(t, older, p, true, 9)
	wantSize(t, older, p, 16)
	wantLeft(t, newer, p, true, 8)
	wantSize(t, newer, p, 24)
	wantLeft(t, newer, p, false, 7)
	wantSize(t, newer, p, 24)
}

// TestUpgrade_new_state has a client whose requests are reserved on a newer node come to an older one.
// There its state is a foreign value: the fail mode decides, and the state stays as it is.
func TestUpgrade_new_state(t *testing.T) {
	server := redistest.Shared(t)
	older, newer, p := olderNode(t, server), openRedis(t, server, 10*time.Second), upgradePolicy(t)
	wantLeft(t, older, p, false, 9)
	wantLeft(t, newer, p, true, 8)
	before := newer.Client().Get(t.Context(), newer.RedisKey(p, limiter.EncodeKey("k"))).Val()
	node := New(older, memory.New(), Options{})
	for i := range 2 * health.FailuresInARow {
		checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Refundable: true}}
		source, err := node.Decide(context.Background(), checks)
		redistest.ErrorIf(t, err != nil || source != limiter.SourceFallback || checks[0].Result.Remaining != int64(9-i),
			"request %d: %+v by %s, %v", i, checks[0].Result, source, err)
		_, err = node.DecideIn(context.Background(), FailClosed, checks)
		redistest.ErrorIf(t, limiter.Kind(err) != "value" || !limiter.FailedAlone(err),
			"fail mode closed: %v of kind %s", err, limiter.Kind(err))
	}
	after := newer.Client().Get(t.Context(), newer.RedisKey(p, limiter.EncodeKey("k"))).Val()
	redistest.ErrorIf(t, after != before, "the state is %q and was %q", after, before)
	storetest.Decide(t, older, limiter.Check{Policy: p, Key: limiter.EncodeKey("another")})
	wantLeft(t, newer, p, false, 7)
}

// TestUpgrade_new_state_ends has a state with a serial expire, from when on older nodes count again.
func TestUpgrade_new_state_ends(t *testing.T) {
	server := redistest.Shared(t)
	older, newer := olderNode(t, server), openRedis(t, server, 10*time.Second)
	p := storetest.NewPolicy(t, limiter.Settings{Name: "short", Algorithm: limiter.GCRA, Limit: 100, Window: time.Second, Burst: 10})
	wantLeft(t, newer, p, true, 9)
	ttl := newer.Client().PTTL(t.Context(), newer.RedisKey(p, limiter.EncodeKey("k"))).Val()
	redistest.ErrorIf(t, ttl > 102*time.Millisecond, "the state lives for %v; a full bucket drains in 100 ms", ttl)
	redistest.WaitFor(t, "older nodes count again", func() error { // their state may end before it is looked at, too
		checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k")}}
		_, err := older.Decide(context.Background(), checks)
		size := older.Client().StrLen(t.Context(), older.RedisKey(p, limiter.EncodeKey("k"))).Val()
		if err == nil && (checks[0].Result.Remaining != 9 || size != 16) {
			return fmt.Errorf("%+v, %d bytes", checks[0].Result, size)
		}
		return err
	})
}

// TestUpgrade_lost_serial refunds a take whose serial an even older node has dropped.
func TestUpgrade_lost_serial(t *testing.T) {
	r, p := openRedis(t, redistest.Shared(t), 10*time.Second), upgradePolicy(t)
	checks := storetest.Decide(t, r, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 5, Refundable: true})
	name := r.RedisKey(p, limiter.EncodeKey("k"))
	state := r.Client().Get(t.Context(), name).Val()
	noError(t, r.Client().SetArgs(t.Context(), name, state[:16], goredis.SetArgs{KeepTTL: true}).Err())
	storetest.RefundIn(r, checks)
	wantLeft(t, r, p, false, 4)
	wantSize(t, r, p, 16)
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
	r := newTestRedis(t, redistest.Shared(t), 10*time.Second, limiter.KeyFormat{Prefix: "t"})
	clock := redistest.NoError(scripts.Fragment(scripts.ClockFragment))(t)
	r.Scripts.Clock = verbatimFragment + clock
	for _, algorithm := range limiter.Algorithms() {
		policy := storetest.NewPolicy(t, limiter.Settings{Name: "p", Algorithm: algorithm, Limit: 2, Window: windowOfBothClocks(0)})
		got := ""
		for range 3 {
			checks := []limiter.Check{{Policy: policy, Key: limiter.EncodeKey("k"), Weight: 1}}
			_, err := r.Decide(context.Background(), checks)
			got += fmt.Sprint(err == nil && limiter.Allowed(checks), err, " ")
		}
		want := "true <nil> true <nil> false <nil> "
		redistest.ErrorIf(t, got != want, "%s: got %s; want %s", algorithm, got, want)
	}
}

// olderFragment runs before clock.lua and makes Redis behave like 5, whose SET has no KEEPTTL.
const olderFragment = `
local server = redis
local redis = {
  call = function(name, ...)
    local options = {...}
    if name == 'SET' and options[3] == 'KEEPTTL' then
      error('ERR syntax error', 0)
    end
    return server.call(name, ...)
  end,
}
`

// TestRedis_DecideWithoutKeepTTL decides on a Redis that is too old: the first take of a window writes, the
// next ones fail. The store reports it once, and no probe ends that outage.
func TestRedis_DecideWithoutKeepTTL(t *testing.T) {
	t.Parallel()
	reported := &listener{}
	server := redistest.Shared(t)
	r := openStore(t, dial.Options{Addresses: []string{server.Addr}, DB: server.DB, Timeout: 10 * time.Second}, redis.Options{
		KeyFormat:  limiter.KeyFormat{Prefix: "t"},
		OnOutage:   func(err error) { reported.add(limiter.Kind(err) + ": " + err.Error()) },
		OnRecovery: func(time.Duration) { reported.add("recovery") },
	})
	clock := redistest.NoError(scripts.Fragment(scripts.ClockFragment))(t)
	r.Scripts.Clock = olderFragment + clock
	policy := storetest.NewPolicy(t, limiter.Settings{Name: "p", Algorithm: limiter.FixedWindow, Limit: 2000, Window: windowOfBothClocks(0)})
	for range 2 {
		_, _ = r.Decide(context.Background(), []limiter.Check{{Policy: policy, Key: limiter.EncodeKey("k"), Weight: 1}}) // the store reports it
	}
	const want = "incompatible: rate limit store could not decide: this server does not know KEEPTTL of SET, which Redis has since 6.0: ERR syntax error"
	waitReported(t, reported, want)
	waitProbes(t, r.Topology.AnyNode)
	waitReported(t, reported, want)
}
