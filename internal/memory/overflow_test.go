package memory

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
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
				assert.ErrorIf(t, n > limit, "%s: %d admitted, the limit is %d", key, n, limit)
			}
			n := admitted["before the flood 7"]
			assert.ErrorIf(t, n != limit, "who came before the flood was admitted %d times, want %d", n, limit)
			assert.ErrorIf(t, m.Len() > bound || m.Overflows() < bound || warnings != 1,
				"%d states kept, %d overflows, %d warnings; want at most %d kept and one warning", m.Len(), m.Overflows(), warnings, bound)
		})
	}
}

// TestMemory_full_flood measures the heap; a soak floods with 10 million keys.
func TestMemory_full_flood(t *testing.T) {
	keys, bound := assert.Rounds(100_000, 10_000_000), assert.Rounds[int64](10_000, 100_000)
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
		assert.ErrorIf(t, grown > most, "%s: %d keys take %d bytes, want at most %d", algorithm, keys, grown, most)
		assert.ErrorIf(t, limiter.Allowed(storetest.Decide(t, m, limiter.Check{Policy: spent, Key: limiter.EncodeKey("k"), Weight: 1})),
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
	if met := m.Overflows() - overflows; m.Len() > 100 || met > sweepEvery || sharing > 2 {
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

// pass lets time pass in a bubble, and waits for what that has begun.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// TestMemory_quiet stores states of each kind and then none any more: the dead ones go, others stay, and nothing
// wakes once none is left.
func TestMemory_quiet(t *testing.T) {
	t.Parallel()
	const clients = 20_000
	take := func(m *Store, c limiter.Check) { _, _ = m.Decide(context.Background(), []limiter.Check{c}) }
	for name, test := range map[string]struct {
		settings limiter.Settings
		maxKeys  int64
		store    func(m *Store, c limiter.Check)
		kept     int64
	}{
		"counts": {limiter.Settings{Algorithm: limiter.SlidingWindowCounter}, DefaultMaxKeys, take, clients},
		"logs":   {limiter.Settings{Algorithm: limiter.SlidingWindowLog}, DefaultMaxKeys, take, clients},
		"answers": {limiter.Settings{Algorithm: limiter.GCRA}, DefaultMaxKeys, func(m *Store, c limiter.Check) {
			c.Result = limiter.Result{Remaining: 1, ResetAfter: time.Minute}
			m.Remember(&c)
		}, clients},
		"bans":     {limiter.Settings{Algorithm: limiter.GCRA, Ban: []time.Duration{time.Minute}}, DefaultMaxKeys, func(m *Store, c limiter.Check) { c.Weight = 2; take(m, c); take(m, c) }, 2 * clients},
		"overflow": {limiter.Settings{Algorithm: limiter.TokenBucket}, 100, take, 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := New()
				m.Limit(test.maxKeys, nil)
				test.settings.Name, test.settings.Limit, test.settings.Window = name, 2, time.Minute
				short := storetest.NewPolicy(t, test.settings)
				for i := range clients {
					test.store(m, limiter.Check{Policy: short, Key: limiter.EncodeKey(fmt.Sprint(i)), Weight: 1})
				}
				assert.FatalIf(t, m.Len() != test.kept, "%d states, want %d", m.Len(), test.kept)
				m.Limit(DefaultMaxKeys, nil)
				long := limiter.Check{Policy: storetest.NewPolicy(t, limiter.Settings{Name: "long", Algorithm: limiter.GCRA, Limit: 1, Window: time.Hour}), Key: limiter.EncodeKey("a"), Weight: 1}
				take(m, long)
				pass(20 * time.Minute)
				assert.ErrorIf(t, m.Len() != 1 || m.Spills.Load() != 0,
					"%d states and %d overflows are left, want the one that counts", m.Len(), m.Spills.Load())
				if take(m, long); !m.Sweeps.IsSet() {
					t.Error("the sweeps ended before the states")
				}
				pass(time.Hour)
				assert.ErrorIf(t, m.Len() != 0 || m.Sweeps.IsSet(),
					"%d states are left, the timer is set: %v", m.Len(), m.Sweeps.IsSet())
			})
		})
	}
}

// TestMemory_dropped drops a store whose states last for long: its sweeps do not keep it.
func TestMemory_dropped(t *testing.T) {
	t.Parallel()
	kept := func() weak.Pointer[Store] {
		m := New()
		_, _ = m.Decide(context.Background(), []limiter.Check{{Policy: storetest.DayPolicy(t, "long", limiter.FixedWindow, 1), Key: limiter.EncodeKey("a"), Weight: 1}})
		return weak.Make(m)
	}()
	if runtime.GC(); kept.Value() != nil {
		t.Error("the store is still in memory")
	}
}
