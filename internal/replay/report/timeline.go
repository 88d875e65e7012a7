package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/humanize"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
)

// tableSteps is the largest number of rows in the table of a timeline.
const tableSteps = 50

// timelineChart draws the requests over time with the denied ones in front. If those are few, as under a good limit,
// they are drawn again below on a larger scale. It returns nil without requests.
func timelineChart(id, of string, buckets []replay.Bucket, step time.Duration) *chart {
	var requests, denied int64
	for _, m := range buckets {
		requests, denied = requests+m.Requests, denied+m.Denied
	}
	if requests == 0 {
		return nil
	}
	coarse, coarseStep := thinTimeline(buckets, step, tableSteps)
	c := &chart{
		ID:     id,
		Title:  "Requests and denials over time" + of,
		Legend: []chartKey{{"requests", "requests"}},
		Desc: fmt.Sprintf("%s between %s and %s, of which %s denied. The busiest %s began at %s. The table below has the numbers.",
			sayCounted(requests, "request"), sayTime(buckets[0].Begins), sayTime(buckets[len(buckets)-1].Begins.Add(step)), humanize.Count(denied), sayPeriod(coarseStep), sayTime(busiest(coarse))),
		Table: timelineTable(coarse, coarseStep),
	}
	if denied > 0 {
		c.Legend = append(c.Legend, chartKey{"denied", "of them denied"})
	}
	for _, size := range chartSizes {
		c.Views = append(c.Views, timelineView(size, buckets, step))
	}
	return c
}

func busiest(buckets []replay.Bucket) time.Time {
	best := buckets[0]
	for _, m := range buckets {
		if m.Requests > best.Requests {
			best = m
		}
	}
	return best.Begins
}

func timelineTable(buckets []replay.Bucket, step time.Duration) reportTable {
	t := reportTable{
		Caption: "Requests and denials in steps of " + sayDuration(step) + ", times in UTC",
		Note:    "The chart may have shorter steps; the table sums them up to stay readable.",
		Columns: []reportColumn{{"From (UTC)", times}, {"Requests", numbers}, {"Denied", numbers}, {"Percent denied", numbers}},
	}
	for _, m := range buckets {
		t.Rows = append(t.Rows, []string{sayCell(m.Begins), humanize.Count(m.Requests), humanize.Count(m.Denied), sayPercent(m.Denied, m.Requests)})
	}
	return t
}

// timelineView draws the panels above one axis of time.
func timelineView(size chartSize, all []replay.Bucket, step time.Duration) chartView {
	buckets, step := thinTimeline(all, step, size.steps)
	var requests, denied float64
	for _, m := range buckets {
		requests, denied = max(requests, float64(m.Requests)), max(denied, float64(m.Denied))
	}
	upper, lower := roundSteps(requests, 1, 4), roundSteps(denied, 1, 2)
	v := chartView{Class: size.class, Width: size.width}
	begin, end := buckets[0].Begins, buckets[len(buckets)-1].Begins.Add(step)
	left := max(labelRoom(upper, axisCount), labelRoom(lower, axisCount))
	x := chartScale{high: end.Sub(begin).Seconds(), start: left, end: size.width - 14}

	y := timelinePanel(&v, x, 26, size.height, "requests per "+sayPeriod(step), upper)
	v.path("requests", stairs(buckets, x, y, func(m replay.Bucket) int64 { return m.Requests }))
	if denied > 0 {
		v.path("denied", stairs(buckets, x, y, func(m replay.Bucket) int64 { return m.Denied }))
	}
	if denied > 0 && denied < requests/4 {
		y = timelinePanel(&v, x, 42, size.height*0.4, "denied requests alone, on a larger scale", lower)
		v.path("denied", stairs(buckets, x, y, func(m replay.Bucket) int64 { return m.Denied }))
	}
	timeAxis(&v, x, begin, end, size.ticks)
	if size.class == "wide" {
		hoverSteps(&v, x, all, step)
	}
	v.Height += 40
	return v
}

// timelinePanel adds a panel below the others, and returns its vertical scale.
func timelinePanel(v *chartView, x chartScale, gap, height float64, name string, ticks []float64) chartScale {
	top := v.Height + gap
	y := chartScale{high: ticks[len(ticks)-1], start: top + height, end: top}
	v.text("unit", "start", 0, top-12, name)
	rowsAxis(v, y, ticks, x.start, x.end, axisCount)
	v.Height = top + height
	return y
}

// stairs returns the outline of a timeline: level within each step, and on the axis in empty ones. The lowest step
// is still visible.
func stairs(buckets []replay.Bucket, x, y chartScale, of func(replay.Bucket) int64) string {
	var b strings.Builder
	begin, base := buckets[0].Begins, px(y.start)
	before := base
	for _, m := range buckets {
		level := base
		if n := of(m); n > 0 {
			level = px(min(y.at(float64(n)), y.start-1.5))
		}
		if level == before {
			continue
		}
		place := px(x.at(m.Begins.Sub(begin).Seconds()))
		if before == base {
			b.WriteString("M" + place + " " + base)
		}
		b.WriteString("H" + place + "V" + level)
		before = level
	}
	if before != base {
		b.WriteString("H" + px(x.end) + "V" + base)
	}
	return b.String()
}

// timeAxis draws the ticks below the last panel.
func timeAxis(v *chartView, x chartScale, begin, end time.Time, most int) {
	for _, tick := range timeTicks(begin, end, most) {
		place := x.at(tick.at.Sub(begin).Seconds())
		v.line("base", place, v.Height, place, v.Height+5)
		v.text("tick", "middle", min(place, v.Width-letter*2.5), v.Height+18, tick.time)
		if tick.day != "" {
			v.text("tick day", "middle", min(max(place, 40), v.Width-40), v.Height+33, tick.day)
		}
	}
}

// hoverSteps draws transparent boxes over the chart. Their titles have the numbers of the table.
func hoverSteps(v *chartView, x chartScale, all []replay.Bucket, step time.Duration) {
	fine, _ := thinTimeline(all, step, 300)
	coarse, size := thinTimeline(all, step, tableSteps)
	begin := fine[0].Begins
	for _, m := range coarse {
		left := max(x.start, x.at(m.Begins.Sub(begin).Seconds()))
		right := min(x.end, x.at(m.Begins.Add(size).Sub(begin).Seconds()))
		v.box("hover", left, 24, right, v.Height, fmt.Sprintf("%s–%s: %s, %s denied", m.Begins.Format("2 Jan 15:04"),
			m.Begins.Add(size).Format("15:04 UTC"), sayCounted(m.Requests, "request"), humanize.Count(m.Denied)))
	}
}
