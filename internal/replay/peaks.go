package replay

import "math"

// histogram counts keys by their peak, from the first bin with a key to the last. The bins widen by decade, and
// one of them ends at the limit. Keys without a peak are not counted.
func histogram(peaks []int64, limit int64) []PeakRate {
	counts := map[int64]int{}
	lowest, highest := int64(math.MaxInt64), int64(0)
	for _, most := range peaks {
		if most > 0 {
			counts[most]++
			lowest, highest = min(lowest, most), max(highest, most)
		}
	}
	bins := []PeakRate{}
	for _, b := range binsUpTo(highest, limit) {
		if b.To >= lowest {
			bins = append(bins, b)
		}
	}
	for most, clients := range counts {
		i := 0
		for bins[i].To < most {
			i++
		}
		bins[i].Clients += clients
	}
	return bins
}

// binsUpTo returns the bins for peaks from 1 to the highest. The limit replaces the nearest edge, so that no bin
// is narrow.
func binsUpTo(highest, limit int64) []PeakRate {
	starts := binStarts(max(highest, limit))
	nearest, edge := 0, float64(limit)+1
	ratio := func(start int64) float64 { return max(edge, float64(start)) / min(edge, float64(start)) }
	for i, start := range starts {
		if ratio(start) < ratio(starts[nearest]) {
			nearest = i
		}
	}
	starts[nearest] = limit + 1
	bins := []PeakRate{}
	for i := 0; i+1 < len(starts) && starts[i] <= highest; i++ {
		bins = append(bins, PeakRate{From: starts[i], To: starts[i+1] - 1})
	}
	return bins
}

// binStarts returns the lowest peaks of bins, to beyond the highest: 1, 2, 3, 4, 6, 10, 15, 20, 30, 40, 60,
// 100 and so on.
func binStarts(highest int64) []int64 {
	starts := []int64{1, 2, 3, 4, 6}
	for decade := int64(1); decade <= math.MaxInt64/60 && starts[len(starts)-2] <= highest; decade *= 10 {
		for _, start := range []int64{10, 15, 20, 30, 40, 60} {
			starts = append(starts, start*decade)
		}
	}
	return starts
}
