package replay

import (
	"math"
	"sort"
)

// keysAbove returns how many of the peaks, from low to high, lie above a limit.
func keysAbove(peaks []int64, limit int64) int {
	return len(peaks) - sort.Search(len(peaks), func(j int) bool { return peaks[j] > limit })
}

// histogram counts keys by their peaks, from low to high, from the first bin with a key to the last. Keys without a
// peak are not counted.
func histogram(peaks []int64, limit int64) []peakRate {
	bins := []peakRate{}
	if len(peaks) == 0 {
		return bins
	}
	highest := peaks[len(peaks)-1]
	starts := binStarts(highest, limit)
	for i := 0; starts[i] <= highest; i++ {
		bin := peakRate{From: starts[i], To: starts[i+1] - 1}
		bin.Clients = keysAbove(peaks, bin.From-1) - keysAbove(peaks, bin.To)
		if len(bins) > 0 || bin.Clients > 0 {
			bins = append(bins, bin)
		}
	}
	return bins
}

// binStarts returns the lowest peaks of bins, to beyond the highest: 1, 2, 3, 4, 6, 10, 15, 20, 30, 40, 60, 100 and
// so on. One bin ends at the limit, whose edge replaces the nearest, so that no bin is narrow.
func binStarts(highest, limit int64) []int64 {
	highest = max(highest, limit)
	starts := []int64{1, 2, 3, 4, 6}
	for decade := int64(1); decade <= math.MaxInt64/60 && starts[len(starts)-2] <= highest; decade *= 10 {
		for _, start := range []int64{10, 15, 20, 30, 40, 60} {
			starts = append(starts, start*decade)
		}
	}
	i := sort.Search(len(starts), func(i int) bool { return starts[i] > limit })
	if edge := float64(limit + 1); i > 0 && edge/float64(starts[i-1]) <= float64(starts[i])/edge {
		i--
	}
	starts[i] = limit + 1
	return starts
}
