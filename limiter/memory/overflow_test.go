package memory

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
)

// TestMemory_full_quota floods a small store with keys, before and after clients have used up their
// quotas.
func TestMemory_full_quota(t *testing.T) {
	t.Parallel()
	for _, algorithm := range limiter.Algorithms() {
		t.Run(algorithm, func(t *testing.T) {
			const bound, limit = 1_000, 5
			m := New()
			warnings := 0
			m.Limit(bound, func() { warnings++ })
			p := storetest.DayPolicy(t, "flooded", algorithm, limit)
			admitted := map[string]int{}
			ask := func(key string) {
				if limiter.Allowed(storetest.Decide(t, m, limiter.Check{Policy: p, Key: limiter.EncodeKey(key), Weight: 1})) {
					admitted[key]++
				}
			}
			spend := func(name string) {
				for i := range 50 {
					for range limit + 1 {
						ask(fmt.Sprint(name, i))
					}
				}
			}
			spend("before the flood ")
			for i := range 10 * bound {
				ask(fmt.Sprint("flood ", i))
			}
			spend("in the flood ")
			for i := range 10 * bound {
				ask(fmt.Sprint("second flood ", i))
			}
			spend("before the flood ")
			spend("in the flood ")
			for key, n := range admitted {
				redistest.ErrorIf(t, n > limit, "%s: %d admitted, the limit is %d", key, n, limit)
			}
			n := admitted["before the flood 7"]
			redistest.ErrorIf(t, n != limit, "who came before the flood was admitted %d times, want %d", n, limit)
			redistest.ErrorIf(t, m.Len() > bound || m.Overflows() < bound || warnings != 1,
				"%d states kept, %d overflows, %d warnings; want at most %d kept and one warning", m.Len(), m.Overflows(), warnings, bound)
		})
	}
}

// TestMemory_full_flood measures the heap; a soak floods with 10 million keys.
func TestMemory_full_flood(t *testing.T) {
	keys, bound := redistest.Rounds(100_000, 10_000_000), redistest.Rounds[int64](10_000, 100_000)
	for _, algorithm := range []string{limiter.SlidingWindowCounter, limiter.SlidingWindowLog} {
		m := New()
		m.Limit(bound, nil)
		p := storetest.DayPolicy(t, "flood", algorithm, 100)
		spent := storetest.DayPolicy(t, "spent", algorithm, 1)
		storetest.Decide(t, m, limiter.Check{Policy: spent, Key: limiter.EncodeKey("k"), Weight: 1})
		before := liveHeap()
		for i := range keys {
			_, _ = m.Decide(t.Context(), []limiter.Check{{Policy: p, Key: limiter.EncodeKey(fmt.Sprintf("%016x", i)), Weight: 1}}) // cannot fail
		}
		grown := liveHeap() - before
		most := 300*bound + 256*65536
		redistest.ErrorIf(t, grown > most, "%s: %d keys take %d bytes, want at most %d", algorithm, keys, grown, most)
		redistest.ErrorIf(t, limiter.Allowed(storetest.Decide(t, m, limiter.Check{Policy: spent, Key: limiter.EncodeKey("k"), Weight: 1})),
			"the flood gave a spent client a fresh quota")
		t.Logf("%s: %d keys in a store for %d take %d bytes", algorithm, keys, bound, grown)
		runtime.KeepAlive(m)
	}
}

func liveHeap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// TestMemory_full_room_again waits until the flood's states have reset.
func TestMemory_full_room_again(t *testing.T) {
	t.Parallel()
	now := int64(1_000_000_000_000)
	m := NewOnClock(func() int64 { return now })
	m.Limit(100, nil)
	old := storetest.NewPolicy(t, limiter.Settings{Name: "old", Algorithm: limiter.GCRA, Limit: 10, Window: time.Second})
	for i := range 1_000 {
		storetest.Decide(t, m, limiter.Check{Policy: old, Key: limiter.EncodeKey(fmt.Sprint(i)), Weight: 10})
	}
	now += 2_000_000
	overflows := m.Overflows()
	p := storetest.DayPolicy(t, "new", limiter.GCRA, 10)
	sharing := 0
	for i := range 50 {
		if got := storetest.Decide(t, m, limiter.Check{Policy: p, Key: limiter.EncodeKey(fmt.Sprint(i)), Weight: 1})[0].Result.Remaining; got != 9 {
			sharing++
		}
	}
	if met := m.Overflows() - overflows; m.Len() > 100 || met > SweepEvery || sharing > 2 {
		t.Errorf("%d states kept, %d new overflows, %d keys in a common place; want as many as after a sweep for nothing", m.Len(), met, sharing)
	}
}

// TestMemory_bound_together has many clients come at once where there is room for one.
func TestMemory_bound_together(t *testing.T) {
	t.Parallel()
	p := storetest.DayPolicy(t, "full", limiter.FixedWindow, 5)
	for range 3000 {
		m := New()
		m.Limit(1, nil)
		var clients sync.WaitGroup
		for i := range 4 {
			clients.Go(func() {
				_, _ = m.Decide(context.Background(), []limiter.Check{{Policy: p, Key: limiter.EncodeKey(fmt.Sprint(i)), Weight: 1}})
			})
		}
		if clients.Wait(); m.Len() != 1 {
			t.Fatalf("%d states, want 1", m.Len())
		}
	}
}
