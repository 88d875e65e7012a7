package memory

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
)

// TestMemory_slowest_limit has many new clients with a fast limit. By that limit the debt of a
// client with a slow one would drain in no time.
func TestMemory_slowest_limit(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{limiter.TokenBucket, limiter.LeakyBucket, limiter.GCRA} {
		now := int64(1_000_000_000_000)
		m := NewOnClock(func() int64 { return now })
		slow := storetest.NewPolicy(t, limiter.Settings{Name: "dynamic", Algorithm: algorithm, Limit: 10, Window: time.Hour})
		fast, err := slow.WithLimit(10_000, 0)
		redistest.Must(t, err)
		storetest.Decide(t, m, limiter.Check{Policy: slow, Key: limiter.EncodeKey("slow"), Weight: 10})
		now += 10_000_000
		for i := range 3000 {
			storetest.Decide(t, m, limiter.Check{Policy: fast, Key: limiter.EncodeKey(fmt.Sprint(i)), Weight: 1})
		}
		redistest.ErrorIf(t, limiter.Allowed(storetest.Decide(t, m, limiter.Check{Policy: slow, Key: limiter.EncodeKey("slow"), Weight: 1})),
			"%s: who has used up 10 an hour passes after ten seconds", algorithm)
	}
}

// TestMemory_full_ResetAll runs requests in a full store, resets and new limits at once; each of
// them takes locks.
func TestMemory_full_ResetAll(t *testing.T) {
	t.Parallel()
	m := New()
	m.Limit(64, nil)
	full := storetest.DayPolicy(t, "full", limiter.FixedWindow, 10)
	for i := range 64 {
		storetest.Decide(t, m, limiter.Check{Policy: full, Key: limiter.EncodeKey(fmt.Sprint(i)), Weight: 1})
	}
	dynamic := storetest.DayPolicy(t, "dynamic", limiter.FixedWindow, 5000)
	var group sync.WaitGroup
	for client := range 4 {
		group.Go(func() {
			for i := range 20_000 {
				_, _ = m.Decide(context.Background(), []limiter.Check{{Policy: dynamic, Key: limiter.EncodeKey(fmt.Sprint(client, i)), Weight: 1}}) // cannot fail
			}
		})
	}
	group.Go(func() {
		for range 2000 {
			m.ResetAll("dynamic")
		}
	})
	group.Go(func() {
		for i := range int64(5000) {
			limited, err := dynamic.WithLimit(1000+i, 0)
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = m.Decide(context.Background(), []limiter.Check{{Policy: limited, Key: limiter.EncodeKey("k"), Weight: 1}}) // cannot fail
		}
	})
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	redistest.WaitFor(t, "all are done", func() error {
		select {
		case <-done:
			return nil
		default:
			return fmt.Errorf("%d states, %d overflows", m.Len(), m.Overflows())
		}
	})
}

// TestMemory_longest_drain takes refundably from a bucket that takes long to drain, in a table with others of
// lower limits. Its serial has to be there for as long as the receipt is valid.
func TestMemory_longest_drain(t *testing.T) {
	now := int64(1_000_000_000_000)
	m := NewOnClock(func() int64 { return now })
	slow := storetest.NewPolicy(t, limiter.Settings{Name: "dynamic", Algorithm: limiter.GCRA, Limit: 1, Window: time.Second, Dynamic: true})
	large, err := slow.WithLimit(10, 1000)
	redistest.Must(t, err)
	kept := func() bool {
		_, found := m.TableOf(large).ShardOf("k").Kept("k")
		for i := range 10_000 {
			storetest.Decide(t, m, limiter.Check{Policy: slow, Key: limiter.EncodeKey(fmt.Sprint(now, i))})
		}
		_, still := m.TableOf(large).ShardOf("k").Kept("k")
		return found && still
	}
	storetest.Decide(t, m, limiter.Check{Policy: slow, Key: limiter.EncodeKey("first")})
	for _, refundable := range []bool{false, true} {
		storetest.Decide(t, m, limiter.Check{Policy: large, Key: limiter.EncodeKey("k"), Refundable: refundable})
		now += 90_000_000
		redistest.ErrorIf(t, kept() != refundable,
			"after 90 s of 100 in which a full bucket drains: kept is %v, refundable %v", !refundable, refundable)
		now += 11_000_000
		redistest.ErrorIf(t, kept(), "a state that has ended is kept, refundable %v", refundable)
	}
}
