package limiter

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"
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
	take := func(m *Memory, c Check) { _, _ = m.Decide(context.Background(), []Check{c}) }
	for name, test := range map[string]struct {
		settings Settings
		maxKeys  int64
		store    func(m *Memory, c Check)
		kept     int64
	}{
		"counts":   {Settings{Algorithm: SlidingWindowCounter}, DefaultMaxKeys, take, clients},
		"logs":     {Settings{Algorithm: SlidingWindowLog}, DefaultMaxKeys, take, clients},
		"answers":  {Settings{Algorithm: GCRA}, DefaultMaxKeys, func(m *Memory, c Check) { c.Result = Result{Remaining: 1, ResetAfter: time.Minute}; m.remember(&c) }, clients},
		"bans":     {Settings{Algorithm: GCRA, Ban: []time.Duration{time.Minute}}, DefaultMaxKeys, func(m *Memory, c Check) { c.Weight = 2; take(m, c); take(m, c) }, 2 * clients},
		"overflow": {Settings{Algorithm: TokenBucket}, 100, take, 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := NewMemory()
				m.Limit(test.maxKeys, nil)
				test.settings.Name, test.settings.Limit, test.settings.Window = name, 2, time.Minute
				short := mustPolicy(t, test.settings)
				for i := range clients {
					test.store(m, Check{Policy: short, Key: EncodeKey(fmt.Sprint(i)), Weight: 1})
				}
				if m.Len() != test.kept {
					t.Fatalf("%d states, want %d", m.Len(), test.kept)
				}
				m.Limit(DefaultMaxKeys, nil)
				long := Check{Policy: mustPolicy(t, Settings{Name: "long", Algorithm: GCRA, Limit: 1, Window: time.Hour}), Key: EncodeKey("a"), Weight: 1}
				take(m, long)
				pass(20 * time.Minute)
				if m.Len() != 1 || m.spills.Load() != 0 {
					t.Errorf("%d states and %d overflows are left, want the one that counts", m.Len(), m.spills.Load())
				}
				if take(m, long); !m.sweeper.IsSet() {
					t.Error("the sweeps ended before the states")
				}
				pass(time.Hour)
				if m.Len() != 0 || m.sweeper.IsSet() {
					t.Errorf("%d states are left, the timer is set: %v", m.Len(), m.sweeper.IsSet())
				}
			})
		})
	}
}

// TestMemory_dropped drops a store whose states last for long: its sweeps do not keep it.
func TestMemory_dropped(t *testing.T) {
	t.Parallel()
	kept := func() weak.Pointer[Memory] {
		m := NewMemory()
		_, _ = m.Decide(context.Background(), []Check{{Policy: dayPolicy(t, "long", FixedWindow, 1), Key: EncodeKey("a"), Weight: 1}})
		return weak.Make(m)
	}()
	if runtime.GC(); kept.Value() != nil {
		t.Error("the store is still in memory")
	}
}

// TestDenyCache_quiet lets denials expire that no request asks for again.
func TestDenyCache_quiet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newDenyCache(MaxDenyAge)
		c.startSweeps()
		for i := range 1000 {
			c.learn([]Check{{Policy: dayPolicy(t, "api", FixedWindow, 1), Key: EncodeKey(fmt.Sprint(i)), Weight: 1, Result: Result{RetryAfter: time.Hour}}}, time.Now())
		}
		pass(10 * time.Second)
		for i := range c.shards {
			if left := c.shards[i].len(); left > 0 {
				t.Fatalf("%d denials are left", left)
			}
		}
		if c.shards[0].sweeper.IsSet() {
			t.Error("the timer is set")
		}
	})
}
