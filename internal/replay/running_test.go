package replay

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// ran is a request of a key, from an instant to another.
type ran struct {
	key                string
	began, end, weight int64
}

// drawRuns draws requests in the order of their starts, of a few keys and for some minutes.
func drawRuns(t *rapid.T) []ran {
	const second, first = 1_000_000, 1_750_000_000_000_000
	at, runs := int64(first), []ran{}
	for range rapid.IntRange(1, 60).Draw(t, "requests") {
		at += rapid.SampledFrom([]int64{0, 1, second / 3, second, 7 * second, 20 * second}).Draw(t, "pause")
		took := rapid.SampledFrom([]int64{0, 1, second / 3, second, 10 * second, 300 * second}).Draw(t, "took")
		runs = append(runs, ran{
			key: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key"), began: at, end: at + took,
			weight: rapid.SampledFrom([]int64{1, 1, 1, 2, 5, 0}).Draw(t, "weight"),
		})
	}
	return runs
}

// runningAt counts what a key has running when a request begins, of those before it. Each of the others of the
// same instant is over or counts; under a limit those that it denied are left out.
func runningAt(runs []ran, key string, at int64, denied []bool) (n int64) {
	for i, r := range runs {
		if r.key == key && r.began <= at && at < r.end && (i >= len(denied) || !denied[i]) {
			n += r.weight
		}
	}
	return n
}

// TestRunning_brute_force compares the sweep with a count over all requests for each of them.
func TestRunning_brute_force(t *testing.T) {
	limits := []int64{1, 2, 3, 5, 8, 20}
	rapid.Check(t, func(t *rapid.T) {
		runs := drawRuns(t)
		sweep := newRunning(limits)
		peaks, mostTogether := map[string]int64{}, int64(0)
		for i, r := range runs {
			sweep.add(r.key, r.began, r.end, r.weight)
			together := int64(0)
			for _, key := range []string{"a", "b", "c"} {
				n := runningAt(runs[:i], key, r.began, nil)
				if key == r.key {
					n += r.weight
				}
				peaks[key] = max(peaks[key], n)
				together += n
			}
			mostTogether = max(mostTogether, together)
		}
		result := sweep.result(10, 0)
		for _, key := range result.Busiest {
			if key.Peak != peaks[key.Key] {
				t.Fatalf("%s: a peak of %d, want %d", key.Key, key.Peak, peaks[key.Key])
			}
		}
		if result.Together != mostTogether || result.Peak != max(peaks["a"], peaks["b"], peaks["c"]) {
			t.Fatalf("%+v, want %d together", result, mostTogether)
		}
		for i, limit := range limits {
			denied, count := make([]bool, len(runs)), int64(0)
			for j, r := range runs {
				if denied[j] = r.weight > 0 && runningAt(runs[:j], r.key, r.began, denied[:j])+r.weight > limit; denied[j] {
					count++
				}
			}
			if sweep.denied[i] != count {
				t.Fatalf("limit %d: %d denied, want %d", limit, sweep.denied[i], count)
			}
		}
	})
}

func TestRunning_result(t *testing.T) {
	const second, first = 1_000_000, 1_750_000_000_000_000
	r := newRunning([]int64{1, 2, 3, 10})
	if r.result(5, 0) != nil {
		t.Error("a result without a request")
	}
	r.add("unknown", first, 0, 1)
	if r.result(5, 0) != nil {
		t.Error("a result without a duration")
	}
	for i := range 5 {
		r.add("a", first, first+10*second, 1)
		r.add(fmt.Sprint("b", i), first+second, first+2*second, 1)
	}
	r.add("a", first+10*second, first+11*second, 1) // begins as the others end
	got := r.result(2, 2)
	if got.Requests != 12 || got.Untimed != 1 || got.Clients != 6 || got.Peak != 5 || got.Together != 10 || len(got.Busiest) != 2 ||
		got.Busiest[0].Key != "a" || got.Busiest[0].Requests != 6 || !got.TogetherAt.Equal(instant(first+second)) {
		t.Errorf("%+v", got)
	}
	if want := (PeakRate{1, 1, 5}); got.Peaks[0] != want {
		t.Errorf("peaks %+v", got.Peaks)
	}
	l := r.ladder(10)
	if l.Untouched99 != 5 || l.Untouched100 != 5 || l.Limits[0] != (LimitResult{1, 4, 1}) || l.Limits[len(l.Limits)-1] != (LimitResult{10, 0, 0}) {
		t.Errorf("%+v", l)
	}
}
