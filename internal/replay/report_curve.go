package replay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

// curveMark is a limit that is drawn into the chart as a line with a label.
type curveMark struct {
	class, text string
	limit       int64
}

// curveChart draws how many requests and clients each limit denies under one algorithm. It returns nil without
// limits.
func curveChart(id string, s *suggestions, l Ladder, current int64) *chart {
	if len(l.Limits) == 0 {
		return nil
	}
	marks := curveMarks(l, current)
	low, high := l.Limits[0].Limit, l.Limits[len(l.Limits)-1].Limit
	for _, m := range marks {
		low, high = min(low, m.limit), max(high, m.limit)
	}
	var limits, requests, clients []float64
	for _, r := range l.Limits {
		limits = append(limits, float64(max(1, r.Limit)))
		requests = append(requests, 100*float64(r.Denied)/float64(max(1, s.Requests)))
		clients = append(clients, 100*float64(r.ClientsDenied)/float64(max(1, s.Clients)))
	}
	ticks, top := percentSteps(max(slices.Max(requests), slices.Max(clients)), 5), 34+16*float64(len(marks))
	x := chartScale{low: float64(max(1, low)), high: float64(max(2, high)), start: labelRoom(ticks, axisPercent), end: chartRight, log: true}
	y := chartScale{high: ticks[len(ticks)-1], start: top + panelHeight, end: top}
	c := &chart{
		ID:     id,
		Title:  "Limits and what they deny, " + sayName(l.Algorithm),
		Desc:   untouchedSentence(l) + " The table below has the numbers.",
		Legend: []chartKey{{"curve", "requests denied"}, {"curve clients", "clients denied at least once"}},
		Height: top + panelHeight + 42,
		Table:  curveTable(s, l),
	}
	c.text("unit", "start", 0, 14, "denied")
	c.rowsAxis(y, ticks, x, axisPercent)
	c.logAxis(x, y.start, "limit "+perWindow(s))
	left := 0 // marks whose labels extend to the right
	for i, m := range marks {
		row, place := i, x.at(float64(m.limit))
		if place <= chartWidth/2 {
			left++
		} else {
			row = left + len(marks) - 1 - i // no line crosses the label of another
		}
		c.mark(m, place, 32+16*float64(row), y.start)
	}
	c.path("curve", polyline(x, limits, y, requests))
	c.path("curve clients", polyline(x, limits, y, clients))
	return c
}

// curveMarks returns the limits that get a line, from low to high. Equal limits get one line.
func curveMarks(l Ladder, current int64) []curveMark {
	var marks []curveMark
	for _, u := range untouchedLimits(l) {
		if last := len(marks) - 1; u.limit > 0 && last >= 0 && marks[last].limit == u.limit {
			marks[last].text += " and " + u.percent
		} else if u.limit > 0 {
			marks = append(marks, curveMark{"mark", u.percent, u.limit})
		}
	}
	for i := range marks {
		marks[i].text += noBreak + "% untouched: " + display.Count(marks[i].limit)
	}
	if current > 0 {
		marks = append(marks, curveMark{"limit", "limit now: " + display.Count(current), current})
	}
	slices.SortStableFunc(marks, func(a, b curveMark) int { return cmp.Compare(a.limit, b.limit) })
	return marks
}

// mark draws a line down from a label, which stands where there is more room beside the line.
func (c *chart) mark(m curveMark, x, y, bottom float64) {
	c.line(m.class, x, y-10, x, bottom)
	if x > chartWidth/2 {
		c.text(m.class, "end", x-5, y, m.text)
	} else {
		c.text(m.class, "start", x+5, y, m.text)
	}
}

// untouchedLimit is the smallest limit that leaves a percentage of the clients untouched; 0 if none of the tried ones
// does.
type untouchedLimit struct {
	percent string
	limit   int64
}

func untouchedLimits(l Ladder) []untouchedLimit {
	return []untouchedLimit{{"99", l.Untouched99}, {"99.9", l.Untouched999}, {"100", l.Untouched100}}
}

// untouchedSentence returns the limits that leave almost all clients untouched.
func untouchedSentence(l Ladder) string {
	var parts []string
	for _, u := range untouchedLimits(l) {
		if u.limit > 0 {
			parts = append(parts, display.Count(u.limit)+" leaves "+u.percent+noBreak+"% of the clients untouched")
		}
	}
	if len(parts) == 0 {
		return "None of the limits leaves 99" + noBreak + "% of the clients untouched."
	}
	return "A limit of " + strings.Join(parts, ", ") + "."
}

// curveTable returns the numbers of one ladder.
func curveTable(s *suggestions, l Ladder) *reportTable {
	return tableOf(fmt.Sprintf("Limits %s under %s", perWindow(s), sayName(l.Algorithm)),
		[]reportColumn{{"Limit", numbers}, {"Requests denied", numbers}, {"Percent", numbers}, {"Clients denied", numbers}, {"Percent", numbers}},
		l.Limits, func(r limitResult) []string {
			return []string{display.Count(r.Limit), display.Count(r.Denied), sayPercent(r.Denied, s.Requests),
				display.Count(r.ClientsDenied), sayPercent(r.ClientsDenied, s.Clients)}
		})
}

// untouchedTable compares the algorithms by the limits that they need.
func untouchedTable(s *suggestions) *reportTable {
	columns := []reportColumn{{"Algorithm", words}}
	for _, u := range untouchedLimits(Ladder{}) {
		columns = append(columns, reportColumn{u.percent + noBreak + "%", numbers})
	}
	caption := "Smallest limit per " + sayWindow(s.Window, s.Calendar) + " that leaves that percentage of the clients untouched"
	return tableOf(caption, columns, s.Ladders, func(l Ladder) []string {
		row := []string{sayName(l.Algorithm)}
		for _, u := range untouchedLimits(l) {
			if u.limit > 0 {
				row = append(row, display.Count(u.limit))
			} else {
				row = append(row, nothing)
			}
		}
		return row
	})
}

// algorithmTable returns the numbers of all algorithms, limit by limit. All ladders have the same limits.
func algorithmTable(s *suggestions) *reportTable {
	t := &reportTable{
		Caption: "Percentage of requests and of clients that a limit denies, by algorithm",
		Columns: []reportColumn{{"Limit", numbers}},
	}
	for i, l := range s.Ladders {
		t.Columns = append(t.Columns, reportColumn{sayName(l.Algorithm) + ", requests", numbers}, reportColumn{"clients", numbers})
		for j, r := range l.Limits {
			if i == 0 {
				t.Rows = append(t.Rows, []string{display.Count(r.Limit)})
			}
			t.Rows[j] = append(t.Rows[j], sayPercent(r.Denied, s.Requests), sayPercent(r.ClientsDenied, s.Clients))
		}
	}
	return t
}
