package storetest

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// admission is units that were admitted at an instant in microseconds.
type admission struct{ at, weight int64 }

// exactly checks what was admitted against the algorithm without leases: every admission, at its true
// instant, passes there, and no span of them holds more than it may. Each way is enough by itself.
func exactly(p *limiter.Policy, admitted []admission) error {
	slices.SortStableFunc(admitted, func(a, b admission) int { return cmp.Compare(a.at, b.at) })
	t, k := &p.Params, leasingKernelOf(p)
	var s kernel.State
	for i, a := range admitted {
		v := k.Decide(s, a.at/t.Tick, t, a.weight, 0)
		if v.Wait != 0 {
			return fmt.Errorf("admission %d of %d, %d units at %d µs, would wait %d ticks", i, len(admitted), a.weight, a.at, v.Wait)
		}
		s = k.Take(s, t, v, false)
	}
	if over := overshoot(p, admitted); over > 0 {
		return fmt.Errorf("a span holds %d units too many", over)
	}
	return nil
}

// overshoot returns by how many units a span of admissions exceeds what it may hold.
func overshoot(p *limiter.Policy, admitted []admission) (worst int64) {
	t := &p.Params
	counts := map[int64]int64{}
	first, sum := 0, int64(0)          // of a log's span
	level, last := int64(0), int64(-1) // of a bucket
	for _, a := range admitted {
		now := a.at / t.Tick
		w := now / t.Window
		switch {
		case p.Algorithm.Bursts:
			if last >= 0 {
				level = max(0, level-(now-last)*t.Limit)
			}
			level, last = level+a.weight*t.Window, now
			worst = max(worst, kernel.CeilDiv(level-t.Capacity*t.Window, t.Window))
		case p.Algorithm.Logs:
			sum += a.weight
			for admitted[first].at/t.Tick <= now-t.Window {
				sum -= admitted[first].weight
				first++
			}
			worst = max(worst, sum-t.Limit)
		default:
			counts[w] += a.weight
			before := int64(0)
			if p.Settings.Algorithm == limiter.SlidingWindowCounter {
				before = counts[w-1] * (t.Window - (now - w*t.Window)) / t.Window
			}
			worst = max(worst, counts[w]+before-t.Limit)
		}
	}
	return worst
}

// leasingKernelOf returns the kernel of a policy whose units can be leased.
func leasingKernelOf(p *limiter.Policy) kernel.Leasing {
	return p.Algorithm.Kernel.(kernel.Leasing) //nolint:forcetypeassert,errcheck // the tests lease no others
}
