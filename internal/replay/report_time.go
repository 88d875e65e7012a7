package replay

import (
	"time"
)

// roundSpans are steps of time that are easy to read. Longer steps double two weeks.
var roundSpans = []time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
	24 * time.Hour, 2 * 24 * time.Hour, 7 * 24 * time.Hour, 14 * 24 * time.Hour,
}

// roundSpan returns the shortest of these steps that is a multiple of unit and divides a time into at most so many
// parts.
func roundSpan(whole, unit time.Duration, most int) time.Duration {
	least := max(whole/time.Duration(most), unit)
	for _, span := range roundSpans {
		if span >= least && span%unit == 0 {
			return span
		}
	}
	span := roundSpans[len(roundSpans)-1]
	if span%unit != 0 {
		span = unit
	}
	for span < least {
		span *= 2
	}
	return span
}

// thinTimeline sums a timeline up to about so many steps at most, and returns their length. Steps that the timeline
// lacks are empty.
func thinTimeline(buckets []bucket, step time.Duration, most int) ([]bucket, time.Duration) {
	if step <= 0 {
		step = time.Minute
	}
	if len(buckets) == 0 {
		return nil, step
	}
	last := buckets[len(buckets)-1].Begins.Add(step)
	size := roundSpan(last.Sub(buckets[0].Begins), step, most)
	start := buckets[0].Begins.UTC().Truncate(size)
	thin := make([]bucket, 1+max(0, last.Sub(start)-1)/size)
	for i := range thin {
		thin[i].Begins = start.Add(time.Duration(i) * size)
	}
	for _, m := range buckets {
		i := min(max(0, int(m.Begins.Sub(start)/size)), len(thin)-1)
		thin[i].Requests += m.Requests
		thin[i].Denied += m.Denied
	}
	return thin, size
}

// timeTick is a place on an axis of time: the time below it, and below that the day if it is a new one.
type timeTick struct {
	at        time.Time
	time, day string
}

// timeTicks returns round times from begin to end, about so many at most.
func timeTicks(begin, end time.Time, most int) []timeTick {
	step := roundSpan(end.Sub(begin), time.Second, most)
	layout, dayLayout := "15:04", "2 Jan 2006"
	switch {
	case step >= 24*time.Hour:
		layout, dayLayout = "2 Jan", "2006"
	case step < time.Minute:
		layout = "15:04:05"
	}
	var ticks []timeTick
	day := ""
	for t := begin.UTC().Truncate(step); !t.After(end); t = t.Add(step) {
		if t.Before(begin) {
			continue
		}
		tick := timeTick{at: t, time: t.Format(layout)}
		if d := t.Format(dayLayout); d != day {
			tick.day, day = d, d
		}
		ticks = append(ticks, tick)
	}
	return ticks
}
