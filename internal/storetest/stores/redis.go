package stores

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
)

// TestClock replaces clock.lua: the time is a key that the test sets, and keys outlive their
// states by an hour, because Redis's own clock does not follow the test's.
const TestClock = `
local now_us = tonumber(redis.call('GET', 'test:clock'))
local grace = 3600000
`

// clocks has what the clock of each [redistest.Server] is set to.
var clocks sync.Map

// NewRedis returns a store of the suite on a real Redis that takes its time from the test, and what it plays to.
func NewRedis(t testing.TB, server *redistest.Server) (*storetest.Candidate, *redis.Store) {
	t.Helper()
	r := OpenStore(t, dial.Connection{Addresses: []string{server.Addr}, DB: server.DB, Timeout: Patience},
		redis.Setup{KeyFormat: limiter.KeyFormat{Prefix: "t"}, OnLost: func(err error) { t.Error(err) }})
	r.Scripts.Clock = TestClock
	clocks.Delete(server) // it may be flushed
	client := server.Client(t)
	s := &storetest.Candidate{Store: r, Name: "redis", Source: limiter.SourceRedis, Settle: r.Settle, Await: func() { await(r) }}
	s.SetClock = func(micros int64) {
		if before, _ := clocks.Swap(server, micros); before == micros {
			return
		}
		assert.Must(t, client.Set(context.Background(), "test:clock", micros, 0).Err())
	}
	s.Repay = func(t testing.TB, c *limiter.Check, d kernel.Debt) (units int64) {
		t.Helper()
		return do(t, r, redis.NewRepayment(c.Policy, c.Key, []kernel.Debt{d})).Added()
	}
	s.Lease = func(t testing.TB, c *limiter.Check, wish kernel.Wish, rest int64, receipt kernel.Receipt) (limiter.Result, kernel.Lease) {
		t.Helper()
		call := do(t, r, redis.NewTakeAhead(c, wish, rest, receipt))
		defer call.Recycle()
		return call.Checks[0].Result, call.Lease.Got
	}
	return s, r
}

// do makes a call.
func do(t testing.TB, r *redis.Store, call *redis.Call) *redis.Call {
	t.Helper()
	err := r.Topology.AnyNode.Batcher.Do(context.Background(), call, Patience)
	assert.FatalIf(t, err != nil || call.Err != nil, "%+v %+v", err, call.Err)
	return call
}

// await waits until no settlement is on its way.
func await(r *redis.Store) {
	b := &r.Topology.AnyNode.Batcher
	for {
		b.Mu.Lock()
		pending := len(b.Unsettled.Quotas)
		b.Mu.Unlock()
		if pending == 0 {
			return
		}
		<-time.After(20 * time.Microsecond) // leaves the processor to others
	}
}
