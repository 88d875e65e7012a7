package report

import (
	"fmt"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/humanize"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
)

// reportRunning is the part of the report about the requests of a key that ran at once.
type reportRunning struct {
	Lede             string
	Timeline         *chart
	Clients, Busiest *reportTable
}

// newReportRunning returns nil for requests that are not counted. The limit is 0 for none.
func newReportRunning(id string, r *replay.RunningResult, limit int64, of string) *reportRunning {
	if r == nil || r.Peak == 0 {
		return nil
	}
	page := &reportRunning{Lede: runningSentence(r), Timeline: runningChart(id, r, limit, of)}
	page.Clients = &reportTable{
		Caption: "Clients by the most requests that they had running at once",
		Columns: []reportColumn{{"At once", words}, {"Clients", numbers}, {"Percent of clients", numbers}},
	}
	for _, bin := range r.Peaks {
		page.Clients.Rows = append(page.Clients.Rows, []string{sayRange(bin.From, bin.To), humanize.Count(bin.Clients), sayPercent(bin.Clients, r.Clients)})
	}
	if len(r.Busiest) > 0 {
		page.Busiest = &reportTable{
			Caption: "Clients with the most requests at once",
			Columns: []reportColumn{{"Key", keys}, {"Requests", numbers}, {"At once", numbers}, {"First (UTC)", times}},
		}
	}
	for _, k := range r.Busiest {
		page.Busiest.Rows = append(page.Busiest.Rows, []string{sayName(k.Key), humanize.Count(k.Requests), humanize.Count(k.Peak), sayCell(k.PeakAt)})
	}
	return page
}

// runningSentence returns the highest numbers, and what they lack.
func runningSentence(r *replay.RunningResult) string {
	text := fmt.Sprintf("According to the log, had none been refused, one client had at most %s running at once, first at %s, and all clients together %s, first at %s.",
		sayCounted(r.Peak, "request"), sayTime(r.PeakAt), humanize.Count(r.Together), sayTime(r.TogetherAt))
	if r.Untimed > 0 {
		text += fmt.Sprintf(" %s without a duration in the log %s left out.", sayCounted(r.Untimed, "request"), wasWere(r.Untimed))
	}
	return text
}

// runningChart draws the most requests of one client at once over time, with the limit as a line.
func runningChart(id string, r *replay.RunningResult, limit int64, of string) *chart {
	steps := make([]replay.Bucket, len(r.Timeline))
	for i, s := range r.Timeline {
		steps[i] = replay.Bucket{Begins: s.Begins, Requests: s.Running}
	}
	coarse, coarseStep := thinBy(steps, r.Step, tableSteps, highest)
	c := &chart{
		ID:     id,
		Title:  "Requests at once over time, " + of,
		Desc:   runningSentence(r) + " The table below has the numbers.",
		Legend: []chartKey{{"requests", "requests of the busiest client at once"}},
		Table: reportTable{
			Caption: "Most requests of one client at once, in steps of " + sayDuration(coarseStep) + ", times in UTC",
			Note:    "The chart may have shorter steps; the table shows the highest of several to stay readable.",
			Columns: []reportColumn{{"From (UTC)", times}, {"At once", numbers}},
		},
	}
	for _, s := range coarse {
		c.Table.Rows = append(c.Table.Rows, []string{sayCell(s.Begins), humanize.Count(s.Requests)})
	}
	if limit > 0 {
		c.Legend = append(c.Legend, chartKey{"limit", "limit " + humanize.Count(limit)})
	}
	for _, size := range chartSizes {
		c.Views = append(c.Views, runningView(size, steps, r, limit))
	}
	return c
}

func runningView(size chartSize, all []replay.Bucket, r *replay.RunningResult, limit int64) chartView {
	steps, step := thinBy(all, r.Step, size.steps, highest)
	high := max(r.Peak, min(limit, 4*r.Peak)) // a limit far above would flatten the rest
	ticks := roundSteps(float64(high), 1, 4)
	v := chartView{Class: size.class, Width: size.width}
	begin, end := steps[0].Begins, steps[len(steps)-1].Begins.Add(step)
	x := chartScale{high: end.Sub(begin).Seconds(), start: labelRoom(ticks, axisCount), end: size.width - 14}
	y := timelinePanel(&v, x, 26, size.height, "requests at once, highest per "+sayPeriod(step), ticks)
	v.path("requests", stairs(steps, x, y, func(s replay.Bucket) int64 { return s.Requests }))
	if limit > 0 && float64(limit) <= ticks[len(ticks)-1] {
		at := y.at(float64(limit))
		v.line("limit", x.start, at, x.end, at)
	}
	timeAxis(&v, x, begin, end, size.ticks)
	if size.class == "wide" {
		hoverRunning(&v, x, all, r)
	}
	v.Height += 40
	return v
}

// hoverRunning draws transparent boxes over the chart. Their titles have the numbers of the table.
func hoverRunning(v *chartView, x chartScale, all []replay.Bucket, r *replay.RunningResult) {
	fine, _ := thinBy(all, r.Step, chartSizes[0].steps, highest)
	coarse, size := thinBy(all, r.Step, tableSteps, highest)
	begin := fine[0].Begins
	for _, s := range coarse {
		left, right := max(x.start, x.at(s.Begins.Sub(begin).Seconds())), min(x.end, x.at(s.Begins.Add(size).Sub(begin).Seconds()))
		v.box("hover", left, 24, right, v.Height, fmt.Sprintf("%s–%s: at most %s at once",
			s.Begins.Format("2 Jan 15:04"), s.Begins.Add(size).Format("15:04 UTC"), humanize.Count(s.Requests)))
	}
}

// highest keeps the higher of two steps.
func highest(into *replay.Bucket, step replay.Bucket) {
	into.Requests = max(into.Requests, step.Requests)
}
