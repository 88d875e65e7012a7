package replay

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

const peakStart = int64(1_750_000_000_000_000)

func TestPeak_accuracy(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, window := range []int64{1000, 60_000_000, 86_400_000_000} {
		var k peak
		var instants []int64
		now := peakStart
		for range 3000 {
			switch random.IntN(30) {
			case 0:
				now += window + random.Int64N(window)
			default:
				now += random.Int64N(window / 10)
			}
			instants = append(instants, now)
			k.add(now, 1, window)
		}
		exact, shorter := mostWithin(instants, window), mostWithin(instants, window-window/peakParts-1)
		if k.most > exact || k.most < shorter {
			t.Errorf("window %d µs: %d, want from %d to %d", window, k.most, shorter, exact)
		}
	}
}

// mostWithin counts the instants in every window that ends with one.
func mostWithin(instants []int64, window int64) int64 {
	most, first := int64(0), 0
	for i, at := range instants {
		for instants[first] <= at-window {
			first++
		}
		most = max(most, int64(i-first+1))
	}
	return most
}

func TestPeak_overflow(t *testing.T) {
	var k peak
	for range 3 {
		k.add(peakStart, math.MaxInt64, 1_000_000)
	}
	k.add(peakStart+100_000, 5, 1_000_000)
	if want := int64(math.MaxUint32 + 5); k.most != want {
		t.Errorf("peak %d, want %d", k.most, want)
	}
}

func TestPeak_earlier_instants(t *testing.T) {
	var k peak
	k.add(peakStart, 1, 1_000_000)
	k.add(peakStart-5_000_000, 1, 1_000_000)
	if k.most != 2 {
		t.Errorf("peak %d, want 2", k.most)
	}
}

func TestHistogram_limit(t *testing.T) {
	for _, limit := range []int64{1, 2, 3, 4, 5, 7, 8, 10, 14, 60, 100, 101, 12_345, 1 << 52} {
		var peaks []int64
		for most := int64(0); most < 40_000; most += 1 + most/50 {
			peaks = append(peaks, most)
		}
		bins := histogram(peaks, limit)
		clients, next := 0, int64(1)
		for _, b := range bins {
			if b.From != next || b.To < b.From {
				t.Errorf("limit %d: bin %d–%d does not begin at %d", limit, b.From, b.To, next)
			}
			next = b.To + 1
			clients += b.Clients
		}
		if clients != len(peaks)-1 {
			t.Errorf("limit %d: %d keys in the bins, want %d", limit, clients, len(peaks)-1)
		}
		if limit < 40_000 && !slices.ContainsFunc(bins, func(b PeakRate) bool { return b.To == limit }) {
			t.Errorf("limit %d: no bin ends there: %v", limit, bins)
		}
	}
}

func TestHistogram_range(t *testing.T) {
	got := histogram([]int64{3, 12, 3, 0}, 7)
	want := []PeakRate{{3, 3, 2}, {4, 5, 0}, {6, 7, 0}, {8, 14, 1}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := histogram(nil, 7); len(got) != 0 {
		t.Errorf("%v without keys", got)
	}
}
