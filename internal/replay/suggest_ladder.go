package replay

import (
	"errors"
	"slices"
	"sort"
	"time"
)

// highestLimit is the highest limit of the ladder. With it and the policy's own limit the ladder still fits the
// 64 bits of a mask.
const highestLimit = 3_000_000

// ladder is the limits that are tried on one window, from low to high. Times are in ticks.
type ladder struct {
	limits []int64
	window int64
	tick   int64 // microseconds
}

// newLadder returns ten limits a decade, up to the highest or to the end of exact numbers, and the policy's own
// limit unless it is 0. Windows of more than half a day count in milliseconds, because microseconds would end
// the ladder below 100,000 units. Policies count whole milliseconds in the same way.
func newLadder(window time.Duration, own, highest int64) (*ladder, error) {
	const precision, enough = 1 << 52, 100_000
	l := &ladder{window: window.Microseconds(), tick: 1}
	if l.window > precision/enough && l.window%1000 == 0 {
		l.window, l.tick = l.window/1000, 1000
	}
	highest = min(highest, (precision-1)/l.window)
	if highest < 1 {
		return nil, errors.New("window: use a shorter one, this is too long to count in")
	}
	for decade := int64(1); decade <= highest; decade *= 10 {
		for _, tenths := range []int64{10, 12, 15, 20, 25, 30, 40, 50, 60, 80} {
			if limit := decade * tenths / 10; limit*10 == decade*tenths && limit <= highest {
				l.limits = append(l.limits, limit)
			}
		}
	}
	l.limits = append(l.limits, highest)
	if own > 0 && own <= highest {
		l.limits = append(l.limits, own)
	}
	slices.Sort(l.limits)
	l.limits = slices.Compact(l.limits)
	return l, nil
}

// top returns the highest limit.
func (l *ladder) top() int64 { return l.limits[len(l.limits)-1] }

// below returns how many limits are too low for a demand.
func (l *ladder) below(demand int64) int {
	return sort.Search(len(l.limits), func(i int) bool { return l.limits[i] >= demand })
}

// all returns the mask of every limit.
func (l *ladder) all() uint64 { return 1<<len(l.limits) - 1 } // also of 64 limits: a shift by 64 gives 0

// column is one algorithm under every limit of a ladder, for every key; keys are numbered from 0.
//
// Most keys stay far below most limits, and all limits that a key has never reached decide alike: they admit. So
// only the limits below a key's peak demand have a state of their own. Those above share one state, and a limit
// gets a copy of it when the peak passes the limit. The peak demand is also the smallest limit that leaves the
// key untouched.
type column interface {
	// grow adds a key.
	grow()

	// add decides a request and returns the limits that deny it: bit i is limit i. The weight is from 1 to
	// top+1. The instant, in ticks, is never before the last one. A request with a refund needs room like
	// any other, and changes no state.
	add(key int, at, weight int64, returned bool) (denied uint64)

	// peak returns the smallest limit that would have left the key untouched. It is exact up to the highest
	// limit, and top+1 above it.
	peak(key int) int64
}
