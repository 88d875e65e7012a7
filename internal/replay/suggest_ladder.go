package replay

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"
)

// highestLimit is the top of the ladder: the last of the limits that leave a place among the 64 bits of
// a mask for the policy's own.
const highestLimit = 3_000_000

// ladder is the limits that are tried on one window, from low to high. Times count in ticks.
type ladder struct {
	limits []int64
	window int64
	tick   int64 // microseconds
}

// newLadder has ten limits a decade, up to the highest or to where the numbers stop to be exact, and the
// policy's own. Windows of more than half a day count in milliseconds, because microseconds would end
// the ladder below 100,000 units; that judges instants in whole milliseconds as a policy does.
func newLadder(window time.Duration, own, highest int64) (*ladder, error) {
	const precision, enough = 1 << 52, 100_000
	l := &ladder{window: window.Microseconds(), tick: 1}
	if l.window > precision/enough && l.window%1000 == 0 {
		l.window, l.tick = l.window/1000, 1000
	}
	highest = min(highest, (precision-1)/l.window)
	if highest < 1 {
		return nil, errors.New("window: too long to count in")
	}
	for decade := int64(1); decade <= highest; decade *= 10 {
		for _, tenths := range []int64{10, 12, 15, 20, 25, 30, 40, 50, 60, 80} {
			if limit := decade * tenths / 10; limit*10 == decade*tenths && limit <= highest {
				l.limits = append(l.limits, limit)
			}
		}
	}
	l.limits = append(l.limits, highest)
	if own <= highest {
		l.limits = append(l.limits, own)
	}
	slices.Sort(l.limits)
	l.limits = slices.Compact(l.limits)
	if len(l.limits) > 64 {
		return nil, fmt.Errorf("%d limits: a mask has 64 bits", len(l.limits))
	}
	return l, nil
}

// top is the highest limit.
func (l *ladder) top() int64 { return l.limits[len(l.limits)-1] }

// below counts the limits that are too low for a demand.
func (l *ladder) below(demand int64) int {
	return sort.Search(len(l.limits), func(i int) bool { return l.limits[i] >= demand })
}

// all is the mask of every limit.
func (l *ladder) all() uint64 { return 1<<len(l.limits) - 1 } // of 64 too: a shift by 64 gives 0

// column is one algorithm under every limit of a ladder, for every key; keys are numbered from 0.
//
// Most keys never come near most limits, and a limit that a key has stayed within all the time decides
// everything alike: it admits. So only the limits below a key's peak demand have a state of their own;
// those above have one together, of which a limit gets its copy when the peak passes it. The peak demand
// is also the smallest limit that leaves the key untouched.
type column interface {
	// grow makes room for one more key.
	grow()

	// add decides a request and tells which limits deny it: bit i is limit i. The weight is from 1 to
	// top+1, the instant, in ticks, never before the last one. A request whose units are given back
	// needs room as any other does, and changes no share.
	add(key int, at, weight int64, returned bool) (denied uint64)

	// peak is the smallest limit that would have left the key untouched. It is exact up to the top and
	// top+1 above it.
	peak(key int) int64
}
