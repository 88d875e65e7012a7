package report

import (
	"fmt"
	"image/color"
	"io"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/tools/chart"
)

// WriteChart draws each row's throughput in proportion to its group's first row as an SVG. Rows that
// compare latencies and invalid rows are left out.
func WriteChart(w io.Writer, groups []*Group) error {
	picture := chart.Picture{Title: "Throughput; the first bar of each group is 1.00", Width: 760, Columns: 1}
	p := chart.NewPanel("Longer is better")
	p.Add(&plotter.Grid{Vertical: chart.Hairline})
	y, labels := 0.0, plot.ConstantTicks{}
	for _, g := range groups {
		rows := slices.DeleteFunc(slices.Clone(g.Rows), (*Row).hasNoBar)
		if len(rows) == 0 {
			continue
		}
		y -= 1.5 // the next lower place
		p.Add(chart.Heading(g.Title, plotter.XY{Y: y}))
		picture.Description += g.Title + ": "
		for _, r := range rows {
			y--
			r.draw(p, y)
			labels = append(labels, plot.Tick{Value: y, Label: fmt.Sprintf("%s\u2002%s\u00a0", r.Title, ratio(r))})
			picture.Description += fmt.Sprintf("%s %s. ", r.Title, ratio(r))
		}
	}
	p.X.Min, p.X.Max, p.X.Tick.Marker = 0, 1.5, plot.ConstantTicks{{Value: 1, Label: "1.00"}}
	p.Y.Min, p.Y.Max, p.Y.Tick.Marker = y-0.6, -1, labels
	picture.Legend = chart.Legend{
		{Name: "this module", Sample: bar(0, 0, chart.Blue)},
		{Name: "its target", Sample: chart.Line(chart.Red)},
		{Name: "others", Sample: bar(0, 0, chart.Gray)},
	}
	picture.Height, picture.Panels = 130-vg.Length(y)*24, []*chart.Panel{p}
	return picture.Write(w)
}

// hasNoBar reports whether the row is left out of the chart.
func (r *Row) hasNoBar() bool {
	return r.Measure != Throughput || r.Against == nil || len(r.Samples) == 0 || r.Wrong() > 0
}

// draw adds the row's bar and the mark of its target at a height.
func (r *Row) draw(p *chart.Panel, y float64) {
	paint := chart.Gray
	switch {
	case r.Against == r:
		paint = chart.Pale
	case r.Ours:
		paint = chart.Blue
	}
	p.Add(bar(r.Ratio(), y, paint))
	if at := r.Target.AtLeast; at > 0 {
		p.Add(chart.Line(chart.Red, plotter.XYs{{X: at, Y: y - 0.4}, {X: at, Y: y + 0.4}}...))
	}
}

// bar is a bar of a length at a height.
func bar(length, y float64, paint color.Color) *plotter.BarChart {
	return &plotter.BarChart{Values: plotter.Values{length}, XMin: y, Width: 16, Color: paint, Horizontal: true}
}
