package memory

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
)

// TestMemory_tableOf_prunes has a thousand policies, each used for a second: at most twice as many
// tables are kept as policies that still count, and those go on.
func TestMemory_tableOf_prunes(t *testing.T) {
	t.Parallel()
	for _, algorithm := range limiter.Algorithms() {
		t.Run(algorithm, func(t *testing.T) {
			now := storetest.Epoch
			m := NewOnClock(func() int64 { return now })
			lasting := storetest.NewPolicy(t, limiter.Settings{Name: "lasting", Algorithm: algorithm, Limit: 10, Window: 24 * time.Hour})
			storetest.Decide(t, m, limiter.Check{Policy: lasting, Key: limiter.EncodeKey("k"), Weight: 4})
			most := 0
			for i := range 1000 {
				p := storetest.NewPolicy(t, limiter.Settings{Name: fmt.Sprint("brief", i), Algorithm: algorithm, Limit: 10, Window: time.Second})
				storetest.Decide(t, m, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1})
				if i%3 == 0 {
					m.Remember(&limiter.Check{Policy: p, Key: limiter.EncodeKey("other"), Result: limiter.Result{Remaining: 3, ResetAfter: time.Second}})
				}
				now += 100_000
				most = max(most, len(m.Tables))
			}
			assert.ErrorIf(t, most > 2*minTables, "%d tables, want %d at the most", most, 2*minTables)
			now += 10_000_000
			if living := m.Prune(); len(living) != 1 || !living["lasting"] || len(m.Tables) != 1 || m.Len() != 1 {
				t.Errorf("%v live, in %d tables with %d states; want the lasting one alone", living, len(m.Tables), m.Len())
			}
			again := storetest.NewPolicy(t, lasting.Settings) // of a later configuration
			left := storetest.Decide(t, m, limiter.Check{Policy: again, Key: limiter.EncodeKey("k"), Peek: true})[0].Result.Remaining
			assert.ErrorIf(t, left != 6, "%d units remain, want 6", left)
		})
	}
}

// TestMemory_Prune_ended drops a table when its states have reset: those of its keys, those in the overflow, and
// that of a key whose only unit was refunded.
func TestMemory_Prune_ended(t *testing.T) {
	t.Parallel()
	for _, algorithm := range limiter.Algorithms() {
		for name, test := range map[string]struct {
			maxKeys int64
			clients int
			refund  bool
		}{"full": {1, 10, false}, "refunded": {DefaultMaxKeys, 1, true}} {
			t.Run(name+"/"+algorithm, func(t *testing.T) {
				now := storetest.Epoch
				m := NewOnClock(func() int64 { return now })
				m.Limit(test.maxKeys, nil)
				p := storetest.NewPolicy(t, limiter.Settings{Name: "ended", Algorithm: algorithm, Limit: 1, Window: time.Second})
				for i := range test.clients {
					taken := storetest.Decide(t, m, limiter.Check{Policy: p, Key: limiter.EncodeKey(fmt.Sprint(i)), Weight: 1, Refundable: test.refund})
					if test.refund {
						storetest.RefundIn(m, taken)
					}
				}
				assert.ErrorIf(t, !test.refund && !m.Prune()["ended"], "the table was dropped before its states had reset")
				now += 10_000_000
				living := m.Prune()
				assert.ErrorIf(t, len(living) != 0 || m.Len() != 0, "%v live, with %d states", living, m.Len())
			})
		}
	}
}

// TestMemory_refunded_flood has more clients than there is room for. Each refunds its only unit.
func TestMemory_refunded_flood(t *testing.T) {
	t.Parallel()
	now := storetest.Epoch
	m := NewOnClock(func() int64 { return now })
	m.Limit(1000, nil)
	p := storetest.NewPolicy(t, limiter.Settings{Name: "flood", Algorithm: limiter.SlidingWindowLog, Limit: 1, Window: time.Second})
	for i := range 5000 {
		storetest.RefundIn(m, storetest.Decide(t, m, limiter.Check{Policy: p, Key: limiter.EncodeKey(fmt.Sprint(i)), Refundable: true}))
		now += 10_000
	}
	n := m.Overflows()
	assert.ErrorIf(t, n > 0, "%d keys found no room of their own", n)
}

// TestMemory_Prune_loses_no_charge drops tables while requests charge them, one by one and several
// policies at once.
func TestMemory_Prune_loses_no_charge(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	now.Store(storetest.Epoch)
	m := NewOnClock(now.Load)
	p := storetest.NewPolicy(t, limiter.Settings{Name: "pruned", Algorithm: limiter.FixedWindow, Limit: 1_000, Window: time.Second})
	q := storetest.NewPolicy(t, limiter.Settings{Name: "pruned_too", Algorithm: limiter.FixedWindow, Limit: 1_000, Window: time.Second})
	for range 300 {
		now.Add(10_000_000)
		var users sync.WaitGroup
		for range 2 {
			users.Go(func() {
				for range 10 {
					storetest.Decide(t, m, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1})
					storetest.Decide(t, m, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1}, limiter.Check{Policy: q, Key: limiter.EncodeKey("k"), Weight: 1})
				}
			})
			users.Go(func() {
				for range 10 {
					m.Prune()
				}
			})
		}
		users.Wait()
		got := storetest.Decide(t, m, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Peek: true}, limiter.Check{Policy: q, Key: limiter.EncodeKey("k"), Peek: true})
		a, b := got[0].Result.Remaining, got[1].Result.Remaining
		assert.FatalIf(t, a != 960 || b != 980, "%d and %d units remain, want 960 and 980", a, b)
	}
}

// TestMemory_lockEach_many_tables has one request with more policies than there may be tables without
// states. It looped for ever once: each new table dropped one that the request had found before.
func TestMemory_lockEach_many_tables(t *testing.T) {
	t.Parallel()
	m := New()
	for round := range 3 {
		var checks []limiter.Check
		for i := range 10 * minTables {
			checks = append(checks, limiter.Check{Policy: storetest.DayPolicy(t, fmt.Sprintf("p%d-%d", round, i), limiter.GCRA, 10), Key: limiter.EncodeKey("k"), Weight: 1})
		}
		_, err := m.Decide(t.Context(), checks)
		assert.FatalIf(t, err != nil || !limiter.Allowed(checks), "got %v; want all of %d to pass", err, len(checks))
		for i := range checks {
			assert.FatalIf(t, checks[i].Result.Remaining != 9,
				"%d of policy %d remain, want 9", checks[i].Result.Remaining, i)
		}
	}
}

// TestMemory_Decide_one_shard has one request with several keys of a policy whose states lie in one shard, and some of them in one
// cell of the overflow, which the takes before change.
func TestMemory_Decide_one_shard(t *testing.T) {
	t.Parallel()
	for _, algorithm := range limiter.Algorithms() {
		now := storetest.Epoch
		m, p := NewOnClock(func() int64 { return now }), storetest.DayPolicy(t, "shared", algorithm, 100)
		m.Limit(1, nil)
		first, cell := limiter.EncodeKey("k"), new(overflow)
		keys := []limiter.EncodedKey{first}
		for i := 0; len(keys) < 5; i++ {
			key := limiter.EncodeKey(fmt.Sprint("k", i))
			alike := key
			if len(keys) > 2 {
				alike = keys[2] // the first key has the only place of its own
			}
			if m.TableOf(p).Shards.Of(key.String()) == m.TableOf(p).Shards.Of(first.String()) && cell.cell(key.String()) == cell.cell(alike.String()) {
				keys = append(keys, key)
			}
		}
		for round := range int64(3) {
			checks := make([]limiter.Check, len(keys))
			for i, key := range keys {
				checks[i] = limiter.Check{Policy: p, Key: key, Weight: 1}
			}
			storetest.Decide(t, m, checks...)
			for i, key := range keys {
				used := round + 1
				if i >= 2 {
					used *= int64(len(keys) - 2)
				}
				got := storetest.Decide(t, m, limiter.Check{Policy: p, Key: key, Peek: true})[0].Result.Remaining
				assert.ErrorIf(t, got != 100-used, "%s: after %d requests %d units of key %d remain, want %d", algorithm, round+1, got, i, 100-used)
			}
		}
	}
}

// TestMemory_EndRunning ends requests that run in a store without others.
func TestMemory_EndRunning(t *testing.T) {
	t.Parallel()
	m, p := New(), storetest.ConcurrencyPolicy(t, 2)
	take := func(weight int64) []limiter.Check {
		return storetest.Decide(t, m, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: weight})
	}
	first, denied := take(2), take(1)
	assert.ErrorIf(t, !first[0].Result.Passes() || denied[0].Result.Passes(), "%+v, %+v", first, denied)
	m.EndRunning(denied)
	assert.Equal(t, m.Running("running"), 2, "what runs after the end of what was denied")
	m.EndRunning(first)
	m.EndRunning(first)
	assert.Equal(t, m.Running("running"), 0, "what runs after two ends")
}
