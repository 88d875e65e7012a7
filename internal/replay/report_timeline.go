package replay

import (
	"fmt"
	"strings"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

// tableSteps is the largest number of rows in the table of a timeline.
const tableSteps = 50

// timelineChart draws the requests over time with the denied ones in front. If those are few, as under a good limit,
// they are drawn again below on a larger scale. It returns nil without requests.
func timelineChart(id, of string, buckets []bucket, step time.Duration) *chart {
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
			sayCounted(requests, "request"), sayTime(buckets[0].Begins), sayTime(buckets[len(buckets)-1].Begins.Add(step)), display.Count(denied), sayPeriod(coarseStep), sayTime(busiest(coarse))),
		Table: timelineTable(coarse, coarseStep),
	}
	if denied > 0 {
		c.Legend = append(c.Legend, chartKey{"denied", "of them denied"})
	}
	c.drawTimeline(buckets, step)
	return c
}

func busiest(buckets []bucket) time.Time {
	best := buckets[0]
	for _, m := range buckets {
		if m.Requests > best.Requests {
			best = m
		}
	}
	return best.Begins
}

func timelineTable(buckets []bucket, step time.Duration) *reportTable {
	t := tableOf("Requests and denials in steps of "+sayDuration(step)+", times in UTC",
		[]reportColumn{{"From (UTC)", times}, {"Requests", numbers}, {"Denied", numbers}, {"Percent denied", numbers}},
		buckets, func(m bucket) []string {
			return []string{sayCell(m.Begins), display.Count(m.Requests), display.Count(m.Denied), sayPercent(m.Denied, m.Requests)}
		})
	t.Note = "The chart may have shorter steps; the table sums them up to stay readable."
	return t
}

// drawTimeline draws the panels above one axis of time.
func (c *chart) drawTimeline(all []bucket, step time.Duration) {
	buckets, step := thinTimeline(all, step, 300)
	var requests, denied float64
	for _, m := range buckets {
		requests, denied = max(requests, float64(m.Requests)), max(denied, float64(m.Denied))
	}
	upper, lower := roundSteps(requests, 1, 4), roundSteps(denied, 1, 2)
	begin, end := buckets[0].Begins, buckets[len(buckets)-1].Begins.Add(step)
	left := max(labelRoom(upper, axisCount), labelRoom(lower, axisCount))
	x := chartScale{high: end.Sub(begin).Seconds(), start: left, end: chartRight}

	y := c.panel(x, 26, panelHeight, "requests per "+sayPeriod(step), upper)
	c.path("requests", stairs(buckets, x, y, func(m bucket) int64 { return m.Requests }))
	if denied > 0 {
		c.path("denied", stairs(buckets, x, y, func(m bucket) int64 { return m.Denied }))
	}
	if denied > 0 && denied < requests/4 {
		y = c.panel(x, 42, panelHeight*0.4, "denied requests alone, on a larger scale", lower)
		c.path("denied", stairs(buckets, x, y, func(m bucket) int64 { return m.Denied }))
	}
	c.timeAxis(x, begin, end)
	c.Height += 40
}

// panel adds a panel below the others, and returns its vertical scale.
func (c *chart) panel(x chartScale, gap, height float64, name string, ticks []float64) chartScale {
	top := c.Height + gap
	y := chartScale{high: ticks[len(ticks)-1], start: top + height, end: top}
	c.text("unit", "start", 0, top-12, name)
	c.rowsAxis(y, ticks, x, axisCount)
	c.Height = top + height
	return y
}

// stairs returns the outline of a timeline: level within each step, and on the axis in empty ones. The lowest step
// is still visible.
func stairs(buckets []bucket, x, y chartScale, of func(bucket) int64) string {
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
func (c *chart) timeAxis(x chartScale, begin, end time.Time) {
	for _, tick := range timeTicks(begin, end, 9) {
		place := x.at(tick.at.Sub(begin).Seconds())
		c.line("base", place, c.Height, place, c.Height+5)
		c.text("tick", "middle", min(place, chartWidth-letter*2.5), c.Height+18, tick.time)
		if tick.day != "" {
			c.text("tick day", "middle", min(max(place, 40), chartWidth-40), c.Height+33, tick.day)
		}
	}
}
