package report

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/humanize"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
)

// algorithmCharts draws each algorithm's curve in front of all others, on the same scales. Many nearly coincide,
// and six lines in one drawing could not be distinguished.
func algorithmCharts(s *replay.Suggestions) []*chart {
	low, high, most := math.Inf(1), 1.0, 0.0
	for _, l := range s.Ladders {
		requests, _ := curvePercents(s, l)
		for i, r := range l.Limits {
			limit := float64(max(1, r.Limit))
			low, high, most = min(low, limit), max(high, limit), max(most, requests[i])
		}
	}
	if low >= high {
		return nil // one limit is no curve; the table has it
	}
	ticks := percentSteps(most, 3)
	x := chartScale{low: low, high: high, start: labelRoom(ticks, axisPercent), end: 232, log: true}
	y := chartScale{high: ticks[len(ticks)-1], start: 140, end: 26}
	var charts []*chart
	for i, l := range s.Ladders {
		if len(l.Limits) == 0 {
			continue
		}
		v := chartView{Class: "small", Width: 240, Height: 182}
		v.text("unit", "start", 0, 12, "requests denied")
		rowsAxis(&v, y, ticks, x.start, x.end, axisPercent)
		logAxis(&v, x, y.start, "limit per "+sayWindow(s.Window, s.Calendar))
		for _, other := range s.Ladders {
			requests, _ := curvePercents(s, other)
			v.path("others", curveLine(other, requests, x, y))
		}
		requests, _ := curvePercents(s, l)
		v.path("curve", curveLine(l, requests, x, y))
		charts = append(charts, &chart{
			ID: fmt.Sprintf("algorithm-%d", i+1), Title: sayName(l.Algorithm), Views: []chartView{v},
			Desc: "Percentage of requests that each limit denies under " + sayName(l.Algorithm) + ", before the other algorithms in gray. " +
				untouchedSentence(l) + " The table after these charts has the numbers.",
		})
	}
	return charts
}

// algorithmTable returns the numbers of all algorithms, limit by limit.
func algorithmTable(s *replay.Suggestions) reportTable {
	t := reportTable{
		Caption: "Percentage of requests and of clients that a limit denies, by algorithm",
		Columns: []reportColumn{{"Limit", numbers}},
	}
	rows := map[int64][]string{}
	for i, l := range s.Ladders {
		t.Columns = append(t.Columns, reportColumn{sayName(l.Algorithm) + ", requests", numbers}, reportColumn{"clients", numbers})
		for _, r := range l.Limits {
			row := rows[r.Limit]
			if row == nil {
				row = slices.Repeat([]string{nothing}, 1+2*len(s.Ladders))
				row[0] = humanize.Count(r.Limit)
				rows[r.Limit] = row
			}
			row[1+2*i], row[2+2*i] = sayPercent(r.Denied, s.Requests), sayPercent(r.ClientsDenied, s.Clients)
		}
	}
	limits, thinned := thinRows(slices.Sorted(maps.Keys(rows)))
	if thinned {
		t.Note = "The table leaves some limits out to stay readable; the charts have all."
	}
	for _, limit := range limits {
		t.Rows = append(t.Rows, rows[limit])
	}
	return t
}
