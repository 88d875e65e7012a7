package memory

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
)

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
				redistest.FatalIf(t, m.Len() != test.kept, "%d states, want %d", m.Len(), test.kept)
				m.Limit(DefaultMaxKeys, nil)
				long := limiter.Check{Policy: storetest.NewPolicy(t, limiter.Settings{Name: "long", Algorithm: limiter.GCRA, Limit: 1, Window: time.Hour}), Key: limiter.EncodeKey("a"), Weight: 1}
				take(m, long)
				pass(20 * time.Minute)
				redistest.ErrorIf(t, m.Len() != 1 || m.Spills.Load() != 0,
					"%d states and %d overflows are left, want the one that counts", m.Len(), m.Spills.Load())
				if take(m, long); !m.Sweeps.IsSet() {
					t.Error("the sweeps ended before the states")
				}
				pass(time.Hour)
				redistest.ErrorIf(t, m.Len() != 0 || m.Sweeps.IsSet(),
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
