package memory

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
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
			assert.ErrorIf(t, most > 2*MinTables, "%d tables, want %d at the most", most, 2*MinTables)
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
		for i := range 10 * MinTables {
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

func TestState_Take_like_Memory(t *testing.T) {
	t.Parallel()
	delay := 150 * time.Millisecond
	for _, algorithm := range limiter.Algorithms() {
		settings := []limiter.Settings{
			{Limit: 1, Window: time.Millisecond},
			{Limit: 7, Window: time.Second},
			{Limit: 100_000, Window: 24 * time.Hour}, // counts in milliseconds
			{Limit: 3, Window: time.Second, Ban: []time.Duration{time.Second, 3 * time.Second}, BanAfter: 2},
		}
		if kernel.Named(algorithm).Bursts {
			settings = append(settings, limiter.Settings{Limit: 5, Window: time.Second, Burst: 12}, limiter.Settings{Limit: 5, Window: time.Second, MaxDelay: &delay})
		}
		for _, s := range settings {
			s.Algorithm = algorithm
			t.Run(algorithm+" "+s.Window.String(), func(t *testing.T) { compareState(t, s) })
		}
	}
}

// compareState holds a State equal to a store's on a random trace that has instants at the edges of
// windows, some of them earlier than the one before.
func compareState(t *testing.T, s limiter.Settings) {
	t.Helper()
	p := storetest.NewPolicy(t, s)
	random := rand.New(rand.NewPCG(1, uint64(s.Limit)))
	window := s.Window.Microseconds()
	now := int64(1_750_000_000_000_000)
	store := NewOnClock(func() int64 { return now })
	store.Grace = 1 << 50 // the clock runs backwards
	steps := []int64{0, 1, window / 10, window / 3, window - 1, window, window + 1, 3 * window, -1, -window / 2}
	var state State
	for i := range 20_000 {
		now += steps[random.IntN(len(steps))]
		weight := random.Int64N(4)
		if random.IntN(20) == 0 {
			weight = p.Capacity() + random.Int64N(3) - 1
		}
		reserve := []int64{0, 0, 1, p.MostReserve()}[random.IntN(4)]
		want := storetest.Decide(t, store, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: weight, Reserve: reserve, Peek: weight == 0})[0].Result
		got := state.TakeReserving(p, now, weight, reserve)
		assert.FatalIf(t, got != want, "request %d of weight %d, %d left: %+v, the store says %+v", i, weight, reserve, got, want)
	}
}

func TestState_Take_allocations(t *testing.T) {
	for _, algorithm := range limiter.Algorithms() {
		if kernel.Named(algorithm).Logs {
			continue
		}
		p := storetest.NewPolicy(t, limiter.Settings{Algorithm: algorithm, Limit: 10, Window: time.Second})
		var state State
		now := int64(1_750_000_000_000_000)
		allocs := testing.AllocsPerRun(1000, func() {
			now += 50_000
			state.Take(p, now, 1)
		})
		assert.ErrorIf(t, allocs != 0, "%s: %v allocations per take", algorithm, allocs)
	}
}

// TestMemory_EndRunning ends requests that run in a store without others, and decides ones that never end by a state.
func TestMemory_EndRunning(t *testing.T) {
	t.Parallel()
	m, p, state := New(), storetest.ConcurrencyPolicy(t, 2), new(State)
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
	assert.ErrorIf(t, !state.Take(p, 0, 2).Passes() || state.Take(p, 0, 1).Passes(), "a state has other places")
}
