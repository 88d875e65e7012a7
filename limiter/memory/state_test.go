package memory

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
)

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
		redistest.FatalIf(t, got != want, "request %d of weight %d, %d left: %+v, the store says %+v", i, weight, reserve, got, want)
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
		redistest.ErrorIf(t, allocs != 0, "%s: %v allocations per take", algorithm, allocs)
	}
}
