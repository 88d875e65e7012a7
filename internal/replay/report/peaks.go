package report

import (
	"fmt"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/humanize"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
)

// peaksChart draws the number of clients by their peak, with the limit as a line. Clients to its right asked for
// more than the limit in some window. It returns nil without clients or a limit.
func peaksChart(id string, p replay.PolicyResult) *chart {
	if len(p.PeakRates) == 0 || p.Unlimited || p.CountsRunning() {
		return nil
	}
	c := &chart{
		ID:     id,
		Title:  "Highest rate of each client, policy " + sayName(p.Name),
		Desc:   peaksSentence(p) + " The table below has the numbers.",
		Legend: []chartKey{{"requests", "clients whose peak is at most " + humanize.Count(p.Limit)}},
		Table: reportTable{
			Caption: "Clients by the most they asked for in any " + sayPeriod(p.Window),
			Columns: []reportColumn{{"Peak", words}, {"Clients", numbers}, {"Percent of clients", numbers}},
			Note:    "A peak is counted in twelfths of a window, so it may be a little too low, never too high.",
		},
	}
	if p.PeakRates[len(p.PeakRates)-1].From > p.Limit {
		c.Legend = append(c.Legend, chartKey{"denied", "clients with a higher peak"})
	}
	total := 0
	for _, bin := range p.PeakRates {
		total += bin.Clients
	}
	for _, bin := range p.PeakRates {
		c.Table.Rows = append(c.Table.Rows, []string{sayRange(bin.From, bin.To), humanize.Count(bin.Clients), sayPercent(bin.Clients, total)})
	}
	c.draw(p)
	return c
}

// peaksSentence returns how many clients peaked above the limit. If the limit lies within a bin, its clients may be
// on either side.
func peaksSentence(p replay.PolicyResult) string {
	sure, perhaps, total := 0, 0, 0
	for _, bin := range p.PeakRates {
		total += bin.Clients
		if bin.From > p.Limit {
			sure += bin.Clients
		} else if bin.To > p.Limit {
			perhaps += bin.Clients
		}
	}
	many := humanize.Count(sure) + noBreak + "(" + sayPercent(sure, total) + ")"
	switch {
	case perhaps > 0:
		many = "between " + humanize.Count(sure) + " and " + humanize.Count(sure+perhaps)
	case sure == 0:
		many = "none"
	}
	return fmt.Sprintf("Of %s, %s asked for more than %s in some %s.", sayCounted(total, "client"), many, limitWords(p), sayPeriod(p.Window)) + peaksCaveat(p)
}

// limitWords returns the limit that peaks are compared with.
func limitWords(p replay.PolicyResult) string {
	if p.LimitFrom != "" {
		return humanize.Count(p.Limit) + ", the limit where " + sayName(p.LimitFrom) + " sets none,"
	}
	return "the limit of " + humanize.Count(p.Limit)
}

// peaksCaveat returns what peaks do not contain.
func peaksCaveat(p replay.PolicyResult) string {
	text := ""
	if p.CountIf {
		text += " Units that were refunded after the response count until then."
	}
	if p.Cost != "" {
		text += " Weights count as they were taken, not what responses cost."
	}
	return text
}

// draw draws the bars and the limit.
func (c *chart) draw(p replay.PolicyResult) {
	most, low, high := 0, above(max(0, p.Limit-1)), above(max(1, p.Limit))
	for _, bin := range p.PeakRates {
		most = max(most, bin.Clients)
		low, high = min(low, above(bin.From-1)), max(high, above(bin.To))
	}
	const top = 44.0
	ticks := roundSteps(float64(most), 1, 4)
	c.Height = top + panelHeight + 42
	x := chartScale{low: low, high: high, start: labelRoom(ticks, axisCount), end: chartRight, log: true}
	y := chartScale{high: ticks[len(ticks)-1], start: top + panelHeight, end: top}

	c.text("unit", "start", 0, 14, "clients")
	c.rowsAxis(y, ticks, x, axisCount)
	for _, bin := range p.PeakRates {
		c.bar(x, y, bin, p.Limit)
	}
	c.logAxis(x, y.start, "asked for in a client's busiest "+sayPeriod(p.Window))
	name := "limit "
	if p.LimitFrom != "" {
		name = "limit, else "
	}
	c.mark(curveMark{"limit", name + humanize.Count(p.Limit), p.Limit}, x.at(above(p.Limit)), top-18, y.start)
}

// above returns the edge between a number and the next one: halfway, so that each tick stands below the bar of its
// number. The edge before 1 is higher, or the first bar would dwarf all others.
func above(n int64) float64 { return max(0.7, float64(n)+0.5) }

// bar draws a bin. Neighbors touch, and a single client among thousands is still visible.
func (c *chart) bar(x, y chartScale, bin replay.PeakRate, limit int64) {
	if bin.Clients == 0 {
		return
	}
	class := "requests"
	if bin.From > limit {
		class = "denied"
	}
	left, right := x.at(above(bin.From-1))+0.75, x.at(above(bin.To))-0.75
	c.box(class+" bar", left, min(y.at(float64(bin.Clients)), y.start-3), max(right, left+1), y.start)
}
