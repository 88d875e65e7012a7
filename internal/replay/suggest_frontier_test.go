package replay

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

func TestFrontier_demand(t *testing.T) {
	const window = int64(1000)
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 5))
		var f frontier
		var all []start
		now, units, peak := peakStart, int64(0), int64(1)
		for range 400 {
			now += random.Int64N(1 + random.Int64N(120))
			weight := 1 + random.Int64N(3)
			all, f = append(all, start{now, units}), f.with(start{now, units})
			for _, limit := range []int64{peak, peak + 1, peak + random.Int64N(20), 10 * peak} {
				worst := f[f.worst(0, limit, window)]
				got, want := debtSince(worst, limit, now, units, window), worstDebt(all, limit, now, units, window)
				redistest.FatalIf(t, got != want, "seed %d, limit %d: a debt of %d, want %d", seed, limit, got, want)
			}
			units += weight
			got, want := f.demand(peak, now, units, window), peak
			for worstDebt(all, want, now, units, window) > want*window {
				want++
			}
			redistest.FatalIf(t, got != want, "seed %d: a demand of %d, want %d", seed, got, want)
			peak = got
			f = f[f.worst(0, peak, window):]
		}
		redistest.ErrorIf(t, len(f) > 20, "seed %d: %d of %d requests are kept", seed, len(f), len(all))
	}
}

// debtSince is the debt under a limit if it began to grow with a request.
func debtSince(s start, limit, now, units, window int64) int64 {
	return (units-s.before)*window - (now-s.at)*limit
}

func worstDebt(all []start, limit, now, units, window int64) int64 {
	worst := int64(math.MinInt64)
	for _, s := range all {
		worst = max(worst, debtSince(s, limit, now, units, window))
	}
	return worst
}

func TestQuotientUp(t *testing.T) {
	for _, c := range []struct{ a, b, c, want int64 }{
		{10, 3, 3, 10}, {10, 3, 4, 8}, {9, 4, 4, 9}, {1, 1, 1 << 40, 1}, {0, 5, 5, 0},
		{1 << 40, 1 << 40, 1<<40 + 1, 1 << 40}, {1 << 40, 1 << 40, 1 << 60, 1 << 20},
	} {
		got := quotientUp(c.a, c.b, c.c)
		redistest.ErrorIf(t, got != c.want, "%d*%d/%d is %d, want %d", c.a, c.b, c.c, got, c.want)
	}
	redistest.ErrorIf(t, !less(1<<40, 1<<40, 1<<41, 1<<40) || less(3, 4, 4, 3), "products are compared wrongly")
}
