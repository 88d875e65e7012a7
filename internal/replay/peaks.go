package replay

import "math"

// peakParts is the number of parts of a window in which a peak is counted.
const peakParts = 12

// peak finds the most units that a key asked for in any window. It counts them in twelfths of a window: the
// current one and the eleven before, which cover a window or up to a twelfth less. So the peak is never too
// high, and at least that of a window shorter by a twelfth. It takes 64 bytes. An exact peak would need every
// request of a window. The zero peak is that of a key without requests.
type peak struct {
	most  int64 // units
	now   int64 // the number of the part since the Unix epoch
	parts [peakParts]uint32
}

// add counts a request. The instant and the window are in microseconds. An instant before the last one counts
// as the last one.
func (k *peak) add(micros, weight, window int64) {
	now := max(k.now, floorDiv(micros, max(1, window/peakParts)))
	if now-k.now >= peakParts {
		clear(k.parts[:])
	} else {
		for i := k.now + 1; i <= now; i++ {
			k.parts[i%peakParts] = 0
		}
	}
	k.now = now
	part := &k.parts[now%peakParts]
	*part = uint32(min(int64(*part)+min(weight, math.MaxUint32), math.MaxUint32))
	sum := int64(0)
	for _, units := range k.parts {
		sum += int64(units)
	}
	k.most = max(k.most, sum)
}

// refund subtracts the last request again. Its room still counts in the peak.
func (k *peak) refund(weight int64) {
	part := &k.parts[k.now%peakParts]
	*part -= uint32(min(weight, int64(*part)))
}

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
