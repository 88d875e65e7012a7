package failover

import (
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// bothStores returns a store that decides on Redis and one that decides in process, by the sources of their answers.
func bothStores(t testing.TB, o Behavior) map[string]*Store {
	t.Helper()
	shared := stores.Open(t, redistest.Shared(t))
	return map[string]*Store{string(limiter.SourceRedis): New(shared, memory.New(), o), string(limiter.SourceMemory): New(nil, memory.New(), o)}
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
