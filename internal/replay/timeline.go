package replay

import "time"

// maxBuckets bounds the steps of a timeline. A longer timeline has longer steps.
const maxBuckets = 720

// steps are the lengths that a timeline's steps can have. Each is a multiple of the one before.
var steps = []time.Duration{
	time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute,
	time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 28 * 24 * time.Hour, 364 * 24 * time.Hour,
}

// timeline counts requests over time, for a number of series. Times never decrease.
type timeline struct {
	step   int        // of steps
	first  int64      // the number of the first step since the Unix epoch
	series [][]counts // all of one length
}

type counts struct{ requests, denied int64 }

// micros is the length of a step.
func (t *timeline) micros() int64 { return steps[t.step].Microseconds() }

// at extends the timeline to an instant, and returns the index of its step. The longest steps reach 700 years, more
// than the times that are read.
func (t *timeline) at(micros int64) int {
	if len(t.series[0]) == 0 {
		t.first = micros / t.micros()
	}
	for micros/t.micros()-t.first >= maxBuckets {
		t.coarsen()
	}
	place := int(micros/t.micros() - t.first)
	t.reach(place + 1)
	return place
}

func (t *timeline) reach(length int) {
	for i := range t.series {
		for len(t.series[i]) < length {
			t.series[i] = append(t.series[i], counts{})
		}
	}
}

// coarsen makes the steps longer.
func (t *timeline) coarsen() {
	before := t.micros()
	t.step++
	first := t.first * before / t.micros()
	for i, series := range t.series {
		var merged []counts
		for j, m := range series {
			place := int((t.first+int64(j))*before/t.micros() - first)
			for len(merged) <= place {
				merged = append(merged, counts{})
			}
			merged[place].requests += m.requests
			merged[place].denied += m.denied
		}
		t.series[i] = merged
	}
	t.first = first
}

// buckets returns the steps of a series.
func (t *timeline) buckets(series int) []bucket {
	buckets := make([]bucket, len(t.series[series]))
	for i, m := range t.series[series] {
		buckets[i] = bucket{instant((t.first + int64(i)) * t.micros()), m.requests, m.denied}
	}
	return buckets
}

// instant is a time of the log.
func instant(micros int64) time.Time { return time.UnixMicro(micros).UTC() }
