package report

import (
	"image/color"
	"io"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/chart"
)

// lightBlue is for the part of Redis in a row of this module.
var lightBlue = color.NRGBA{0x9e, 0xc5, 0xfb, 0xff}

// WriteChart draws each row's processor time over that of its group's first row as an SVG, the web
// server's and behind it Redis's. Rows that compare latencies and invalid rows are left out.
func WriteChart(w io.Writer, groups []*Group) error {
	picture := chart.Picture{Title: "Processor time for a request over bare Caddy, in microseconds", Width: 760, Columns: 1}
	p := chart.NewPanel("Shorter is better; web server + Redis")
	p.Add(&plotter.Grid{Vertical: chart.Hairline})
	y, longest, labels := 0.0, 0.0, plot.ConstantTicks{}
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
			longest = max(longest, r.draw(p, y))
			label := r.Title + "\u2002" + r.sum()
			labels = append(labels, plot.Tick{Value: y, Label: label + "\u00a0"})
			picture.Description += r.Title + " " + r.sum() + ". "
		}
	}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max, p.Y.Tick.Marker = 0, longest*1.05, y-0.6, -1, labels
	picture.Legend = chart.Legend{
		{Name: "this module, web server", Sample: bar(0, 0, 0, chart.Blue)},
		{Name: "Redis", Sample: bar(0, 0, 0, lightBlue)},
		{Name: "its target", Sample: chart.Line(chart.Red)},
		{Name: "others, web server", Sample: bar(0, 0, 0, chart.Gray)},
		{Name: "Redis", Sample: bar(0, 0, 0, chart.Pale)},
	}
	picture.Height, picture.Panels = 130-vg.Length(y)*24, []*chart.Panel{p}
	return picture.Write(w)
}

// hasNoBar reports whether the row is left out of the chart.
func (r *Row) hasNoBar() bool { return !r.hasAdded() || r.Wrong() > 0 }

// sum writes the parts of the row's bar.
func (r *Row) sum() string {
	if store := micros(median(r.StoreCPU())); store != "" {
		return added(r) + " + " + store
	}
	return added(r)
}

// draw adds the row's bar and the mark of its target at a height, and returns how far they reach. Where
// noise makes the difference negative, the web server's part of the bar is empty.
func (r *Row) draw(p *chart.Panel, y float64) float64 {
	paint, storePaint := chart.Gray, chart.Pale
	if r.Ours {
		paint, storePaint = chart.Blue, lightBlue
	}
	web, store := max(0, inMicros(median(r.Added()))), inMicros(median(r.StoreCPU()))
	p.Add(bar(0, web, y, paint))
	if store > 0 {
		p.Add(bar(web, web+store, y, storePaint))
	}
	at := inMicros(r.Target.Added + r.Target.StoreCPU)
	if at > 0 {
		p.Add(chart.Line(chart.Red, plotter.XYs{{X: at, Y: y - 0.4}, {X: at, Y: y + 0.4}}...))
	}
	return max(at, web+store)
}

func inMicros(d time.Duration) float64 { return d.Seconds() * 1e6 }

// bar is a bar between two places at a height.
func bar(from, to, y float64, paint color.NRGBA) *plotter.Polygon {
	const half = 0.35 // of the bar's height
	return chart.Area(paint, 1, plotter.XYs{
		{X: from, Y: y - half}, {X: to, Y: y - half}, {X: to, Y: y + half}, {X: from, Y: y + half},
	}...)
}
