package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/humanize"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
)

// curveMark is a limit that is drawn into the chart as a line with a label.
type curveMark struct {
	class, text string
	limit       int64
}

// curveChart draws how many requests and clients each limit denies under one algorithm. It returns nil without
// limits.
func curveChart(id string, s *replay.Suggestions, l replay.Ladder, current int64) *chart {
	if len(l.Limits) == 0 {
		return nil
	}
	c := &chart{
		ID:    id,
		Title: "Limits and what they deny, " + sayName(l.Algorithm),
		Desc: fmt.Sprintf("Limits from %s to %s %s: the lowest denies %s of the requests, the highest %s. %s The table below has the numbers.",
			humanize.Count(l.Limits[0].Limit), humanize.Count(l.Limits[len(l.Limits)-1].Limit), perWindow(s),
			sayPercent(l.Limits[0].Denied, s.Requests), sayPercent(l.Limits[len(l.Limits)-1].Denied, s.Requests), untouchedSentence(l)),
		Legend: []chartKey{{"curve", "requests denied"}, {"curve clients", "clients denied at least once"}},
		Table:  curveTable(s, l),
	}
	for _, size := range chartSizes {
		c.Views = append(c.Views, curveView(size, s, l, curveMarks(l, current)))
	}
	return c
}

// curveMarks returns the limits that get a line, from low to high. Equal limits get one line.
func curveMarks(l replay.Ladder, current int64) []curveMark {
	var marks []curveMark
	add := func(class, text string, limit int64) {
		if limit <= 0 {
			return
		}
		if i := slices.IndexFunc(marks, func(m curveMark) bool { return m.limit == limit }); i >= 0 && marks[i].class == class {
			marks[i].text += " and " + text
			return
		}
		marks = append(marks, curveMark{class, text, limit})
	}
	add("mark", "99", l.Untouched99)
	add("mark", "99.9", l.Untouched999)
	add("mark", "100", l.Untouched100)
	for i := range marks {
		marks[i].text += noBreak + "% untouched: " + humanize.Count(marks[i].limit)
	}
	add("limit", "limit now: "+humanize.Count(current), current)
	slices.SortStableFunc(marks, func(a, b curveMark) int { return cmp.Compare(a.limit, b.limit) })
	return marks
}

func curveView(size chartSize, s *replay.Suggestions, l replay.Ladder, marks []curveMark) chartView {
	low, high := float64(max(1, l.Limits[0].Limit)), float64(max(1, l.Limits[len(l.Limits)-1].Limit))
	for _, m := range marks {
		low, high = min(low, float64(m.limit)), max(high, float64(m.limit))
	}
	if low == high {
		low, high = low/2, high*2
	}
	requests, clients := curvePercents(s, l)
	ticks := percentSteps(max(slices.Max(requests), slices.Max(clients)), 5)
	left, top := labelRoom(ticks, axisPercent), 34+16*float64(len(marks))
	v := chartView{Class: size.class, Width: size.width, Height: top + size.height + 42}
	x := chartScale{low: low, high: high, start: left, end: size.width - 14, log: true}
	y := chartScale{high: ticks[len(ticks)-1], start: top + size.height, end: top}

	v.text("unit", "start", 0, 14, "denied")
	rowsAxis(&v, y, ticks, left, x.end, axisPercent)
	logAxis(&v, x, y.start, "limit "+perWindow(s))
	curveMarkLines(&v, x, y.start, marks)
	v.path("curve", curveLine(l, requests, x, y))
	v.path("curve clients", curveLine(l, clients, x, y))
	curveHover(&v, x, y, s, l)
	return v
}

// curveMarkLines draws each mark down from a label in its own row. The rows descend towards the side that the
// labels extend to, so that no line crosses the label of another.
func curveMarkLines(v *chartView, x chartScale, bottom float64, marks []curveMark) {
	middle := 0.0
	for _, m := range marks {
		middle += x.at(float64(m.limit)) / float64(len(marks))
	}
	toLeft := middle > (x.start+x.end)/2
	for i, m := range marks {
		row := i
		if toLeft {
			row = len(marks) - 1 - i
		}
		place, y := x.at(float64(m.limit)), 32+16*float64(row)
		v.line(m.class, place, y-10, place, bottom)
		width := textWidth(m.text) + 5
		switch {
		case toLeft && place-width > 0, !toLeft && place+width > v.Width && place-width > 0:
			v.text(m.class, "end", place-5, y, m.text)
		default:
			v.text(m.class, "start", min(place+5, v.Width-width), y, m.text)
		}
	}
}

// curvePercents returns the percentages of requests and of clients denied, limit by limit.
func curvePercents(s *replay.Suggestions, l replay.Ladder) (requests, clients []float64) {
	for _, r := range l.Limits {
		requests = append(requests, 100*float64(r.Denied)/float64(max(1, s.Requests)))
		clients = append(clients, 100*float64(r.ClientsDenied)/float64(max(1, s.Clients)))
	}
	return requests, clients
}

func curveLine(l replay.Ladder, percents []float64, x, y chartScale) string {
	xs, ys := make([]float64, len(percents)), make([]float64, len(percents))
	for i, percent := range percents {
		xs[i], ys[i] = x.at(float64(max(1, l.Limits[i].Limit))), y.at(percent)
	}
	if len(xs) == 1 { // a line of one point is invisible
		xs, ys = []float64{xs[0] - 3, xs[0] + 3}, []float64{ys[0], ys[0]}
	}
	return polyline(xs, ys)
}

// curveHover draws a transparent strip over each limit. Its title has the numbers.
func curveHover(v *chartView, x, y chartScale, s *replay.Suggestions, l replay.Ladder) {
	if v.Class != "wide" || len(l.Limits) > 100 {
		return
	}
	for i, r := range l.Limits {
		place := x.at(float64(max(1, r.Limit)))
		left, right := place-6, place+6
		if i > 0 {
			left = (place + x.at(float64(max(1, l.Limits[i-1].Limit)))) / 2
		}
		if i+1 < len(l.Limits) {
			right = (place + x.at(float64(max(1, l.Limits[i+1].Limit)))) / 2
		}
		v.box("hover", left, y.end, right, y.start, fmt.Sprintf("limit %s: %s of the requests and %s of the clients denied",
			humanize.Count(r.Limit), sayPercent(r.Denied, s.Requests), sayPercent(r.ClientsDenied, s.Clients)))
	}
}
