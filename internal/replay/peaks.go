package replay

import "math"

// peakParts is how many parts a window has when the peak of a key is looked for.
const peakParts = 12

// peak finds the most units that a key asked for in any window. It counts them in parts of a window: the
// one that now is in and the eleven before, which is what a window has seen or up to a twelfth of it
// less. So the peak is never too high, and at least that of a window shorter by a twelfth. It takes 64
// bytes; to be exact it would have to remember every request of a window. The zero peak is that of a key
// that has asked for nothing.
type peak struct {
	most  int64 // units
	now   int64 // the number of the part since the Unix epoch
	parts [peakParts]uint32
}

// add counts a request. The instant and the window are in microseconds; an instant before the last one
// counts as that.
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

// refund undoes the last request, which needed room all the same.
func (k *peak) refund(weight int64) {
	part := &k.parts[k.now%peakParts]
	*part -= uint32(min(weight, int64(*part)))
}

// histogram tells how many keys had which peak, from the first bin with a key to the last. The bins widen
// as decades do, and one of them ends at the limit. Keys without a peak are left out.
func histogram(peaks []peak, limit int64) []PeakRate {
	counts := map[int64]int{}
	lowest, highest := int64(math.MaxInt64), int64(0)
	for i := range peaks {
		if most := peaks[i].most; most > 0 {
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

// binsUpTo makes the bins for peaks from 1 to the highest. The limit's own edge takes the place of the
// one that is nearest, so that no bin is a sliver.
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

// binStarts are the lowest peaks of bins, to beyond the highest: 1, 2, 3, 4, 6, 10, 15, 20, 30, 40, 60,
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
