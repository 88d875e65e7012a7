package replay

import (
	"slices"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

func TestHistogram_limit(t *testing.T) {
	for _, limit := range []int64{1, 2, 3, 4, 5, 7, 8, 10, 14, 60, 100, 101, 12_345, 1 << 52} {
		var peaks []int64
		for most := int64(0); most < 40_000; most += 1 + most/50 {
			peaks = append(peaks, most)
		}
		bins := histogram(peaks, limit)
		clients, next := 0, int64(1)
		for _, b := range bins {
			redistest.ErrorIf(t, b.From != next || b.To < b.From, "limit %d: bin %d–%d does not begin at %d", limit, b.From, b.To, next)
			next = b.To + 1
			clients += b.Clients
		}
		redistest.ErrorIf(t, clients != len(peaks)-1, "limit %d: %d keys in the bins, want %d", limit, clients, len(peaks)-1)
		if limit < 40_000 && !slices.ContainsFunc(bins, func(b PeakRate) bool { return b.To == limit }) {
			t.Errorf("limit %d: no bin ends there: %v", limit, bins)
		}
	}
}

func TestHistogram_range(t *testing.T) {
	got := histogram([]int64{3, 12, 3, 0}, 7)
	want := []PeakRate{{3, 3, 2}, {4, 5, 0}, {6, 7, 0}, {8, 14, 1}}
	redistest.ErrorIf(t, !slices.Equal(got, want), "%v, want %v", got, want)
	if got := histogram(nil, 7); len(got) != 0 {
		t.Errorf("%v without keys", got)
	}
}
