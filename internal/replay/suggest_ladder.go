package replay

import (
	"errors"
	"slices"
	"time"
)

// highestLimit is the highest limit of a ladder.
const highestLimit = 3_000_000

// newLadder returns the limits that are tried on one window, from low to high: ten limits a decade, up to the highest
// or to the end of exact numbers, and the policy's own limit unless it is 0. Policies count windows of more than half a
// day in milliseconds: in microseconds exact numbers would end below 100,000 units.
func newLadder(window time.Duration, own, highest int64) ([]int64, error) {
	const precision, enough = 1 << 52, 100_000
	ticks := window.Microseconds()
	if ticks > precision/enough && ticks%1000 == 0 {
		ticks /= 1000
	}
	highest = min(highest, (precision-1)/ticks)
	if highest < 1 {
		return nil, errors.New("window: use a shorter one, this is too long to count in")
	}
	limits := []int64{highest}
	for decade := int64(1); decade <= highest; decade *= 10 {
		for _, tenths := range []int64{10, 12, 15, 20, 25, 30, 40, 50, 60, 80} {
			if limit := decade * tenths / 10; limit*10 == decade*tenths && limit <= highest {
				limits = append(limits, limit)
			}
		}
	}
	if own > 0 && own <= highest {
		limits = append(limits, own)
	}
	slices.Sort(limits)
	return slices.Compact(limits), nil
}
