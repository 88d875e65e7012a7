package main

import (
	"fmt"
	"image/color"
	"io"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/tools/chart"
)

// draw writes the panels as an SVG of two columns.
func draw(w io.Writer, panels []panel) error {
	p := chart.Picture{
		Title:       "Caddy rate limits: the main panels, on a real Caddy and Redis",
		Description: "Panels over time: " + strings.Join(drawn, ", ") + ". A flood is denied, mostly by the deny cache; then Redis is down for some seconds, the breaker opens and the fallback decides.",
		Width:       900, Height: 1120, Columns: 2,
		Legend: chart.Legend{
			{Name: clock(floodBegins) + "–" + clock(floodEnds) + " a flood of a few clients", Sample: band(floodBegins, floodEnds, 0, chart.Amber)},
			{Name: clock(outageBegins) + "–" + clock(outageEnds) + " Redis is killed", Sample: band(outageBegins, outageEnds, 0, chart.Red)},
		},
	}
	for _, panel := range panels {
		p.Panels = append(p.Panels, panel.chart())
	}
	return p.Write(w)
}

// chart draws the panel's lines, each from zero, or in a stack from the line below.
func (p panel) chart() *chart.Panel {
	field, result := p.FieldConfig.Defaults, chart.NewPanel(p.Title)
	result.Add(&plotter.Grid{Horizontal: chart.Hairline})
	var shapes []plot.Plotter
	stack := map[float64]float64{} // its height at each time
	for i, l := range p.lines {
		paint := chart.Series[i%len(chart.Series)]
		result.Legend = append(result.Legend, chart.Entry{Name: l.name, Sample: chart.Line(paint)})
		for _, run := range l.runs() {
			if field.Custom.Stacking.Mode == "normal" {
				shapes = append(shapes, chart.Area(paint, 0.28, lift(run, stack)...))
			}
			curve := chart.Line(paint, run...)
			if field.Custom.Interpolation == "stepAfter" {
				curve.StepStyle = plotter.PostStep
			}
			shapes = append(shapes, curve)
		}
	}
	slices.Reverse(shapes) // a line that adds nothing to a stack lies below the line that it would hide
	result.Add(shapes...)
	values := axis{field}.ticks(result.Y.Max)
	most := values[len(values)-1].Value
	result.X.Min, result.X.Max, result.X.Tick.Marker = 0, length.Seconds(), times()
	result.Y.Min, result.Y.Max, result.Y.Tick.Marker = 0, most, values
	result.Add(band(floodBegins, floodEnds, most, chart.Amber), band(outageBegins, outageEnds, most, chart.Red))
	return result
}

// runs splits the line where scrapes are missing.
func (l line) runs() (runs []plotter.XYs) {
	begin := 0
	for i := range l.points {
		if end := i + 1; end == len(l.points) || l.points[end].X-l.points[i].X > 1.5 {
			runs = append(runs, l.points[begin:end])
			begin = end
		}
	}
	return runs
}

// lift raises points onto a stack. It returns the outline of the area between both.
func lift(points plotter.XYs, stack map[float64]float64) (outline plotter.XYs) {
	for i, p := range points {
		outline = append(outline, plotter.XY{X: p.X, Y: stack[p.X]})
		stack[p.X] += p.Y
		points[i].Y = stack[p.X]
	}
	slices.Reverse(outline)
	return append(outline, points...)
}

// band covers a plot from one time to another, up to its highest value.
func band(from, to time.Duration, most float64, paint color.NRGBA) *plotter.Polygon {
	left, right := from.Seconds(), to.Seconds()
	return chart.Area(paint, 0.12, plotter.XYs{{X: left}, {X: left, Y: most}, {X: right, Y: most}, {X: right}}...)
}

// times returns a mark for every 20 seconds of the scenario.
func times() (marks plot.ConstantTicks) {
	for at := time.Duration(0); at < length; at += 20 * time.Second {
		marks = append(marks, plot.Tick{Value: at.Seconds(), Label: clock(at)})
	}
	return marks
}

func clock(at time.Duration) string {
	return fmt.Sprintf("%d:%02d", int(at.Minutes()), int(at.Seconds())%60)
}
