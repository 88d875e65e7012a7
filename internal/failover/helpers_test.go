package failover

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
)

// openStore returns a store that is closed when the test ends.
func openStore(t testing.TB, o dial.Options, options redis.Options) *redis.Store {
	t.Helper()
	client := assert.NoError(dial.New(o))(t)
	r := redis.New(client, options)
	t.Cleanup(func() { _ = r.Close() })
	if o.Timeout == patience {
		follow(r)
	}
	return r
}

// follow has requests wait for the refunds and debts of their quotas that left before them, however slow this machine
// is. It holds for some hundred batches.
func follow(r *redis.Store) {
	b := &r.Topology.AnyNode.Batcher
	b.Mu.Lock()
	defer b.Mu.Unlock()
	b.Senders.RoundTrip, b.Senders.Usual = time.Microsecond, time.Hour // no batch stalls
}

// bothStores returns a store that decides on Redis and one that decides in process, by the sources of their answers.
func bothStores(t testing.TB, o Options) map[string]*Store {
	t.Helper()
	shared := openRedis(t, redistest.Shared(t))
	return map[string]*Store{string(limiter.SourceRedis): New(shared, memory.New(), o), string(limiter.SourceMemory): New(nil, memory.New(), o)}
}

// inParallel calls a function with each number below n at once, and waits for all.
func inParallel(n int, do func(i int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { do(i) })
	}
	group.Wait()
}

// wantRemaining compares what is left of a key's quota.
func wantRemaining(t testing.TB, s limiter.Store, p *limiter.Policy, key string, want int64) {
	t.Helper()
	left, err := storetest.Peek(t.Context(), s, p, key)
	assert.ErrorIf(t, err != nil || left.Remaining != want, "%s, key %s: %+v, %v; want %d left", p.Name(), key, left, err, want)
}

// waitLeft waits until so many units remain of the quota of the key "k" on Redis.
func waitLeft(t testing.TB, r *redis.Store, p *limiter.Policy, want int64) {
	t.Helper()
	assert.Retry(t, fmt.Sprintf("%d units of %s remain", want, p.Name()), func() (again bool, seen any) {
		check := limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Peek: true}
		err := r.Peek(t.Context(), &check)
		return err != nil || check.Result.Remaining != want, fmt.Sprintf("%+v, %v", check.Result, err)
	})
}

// waitFailing waits until a store fails, or fails no more. It calls a function before each look.
func waitFailing(t testing.TB, s interface{ Failing() (bool, time.Duration) }, want bool, before func()) {
	t.Helper()
	assert.Retry(t, fmt.Sprint("it fails: ", want), func() (again bool, seen any) {
		before()
		failing, _ := s.Failing()
		return failing != want, "not yet"
	})
}

// noError ends a test that cannot go on.
func noError(t testing.TB, err error) {
	t.Helper()
	assert.Must(t, err)
}

// pause waits between two looks at a condition that soon holds. It leaves the processor to others.
func pause() { <-time.After(20 * time.Microsecond) }

// refundAll refunds what checks took, keepAll has it stay.
func refundAll(f *Store, checks []limiter.Check, source limiter.Source) {
	for _, c := range checks {
		f.Settle(c, 0, source)
	}
}

func keepAll(f *Store, checks []limiter.Check, source limiter.Source) {
	for _, c := range checks {
		f.Settle(c, limiter.Units(&c), source)
	}
}

// chargeAll charges the weights of checks that have taken nothing.
func chargeAll(f *Store, checks []limiter.Check, source limiter.Source) {
	for _, c := range checks {
		units := c.Weight
		c.Peek = true
		f.Settle(c, units, source)
	}
}

// newRefund returns a call that refunds a unit of each check.
func newRefund(checks ...limiter.Check) *redis.Call {
	return redis.NewChange(checks, slices.Repeat([]limiter.Change{{Units: -1}}, len(checks))...)
}

// patience is the timeout of a store whose Redis answers, however slowly. An answer that comes too late is an outage,
// in which the store decides by counts of its own.
const patience = time.Minute

func newTestRedis(t testing.TB, server *redistest.Server, timeout time.Duration, format limiter.KeyFormat) *redis.Store {
	t.Helper()
	return openStore(t, dial.Options{Addresses: []string{server.Addr}, DB: server.DB, Timeout: timeout}, redis.Options{KeyFormat: format})
}
