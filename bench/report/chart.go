package report

import (
	_ "embed"
	"fmt"
	"io"
	"text/template"
)

//go:embed chart.svg.tmpl
var chartText string

var chartTemplate = template.Must(template.New("chart").Funcs(template.FuncMap{
	"px": func(x float64) string { return fmt.Sprintf("%.1f", x) },
}).Parse(chartText))

// bar is a row of the chart, or a heading without a class. Web and Store are pixels, as is Y, the baseline.
type bar struct {
	Label, Class string
	Y            int
	Web, Store   float64
	Cut          bool // is longer than the chart
}

// Top is the upper edge of the bar.
func (b bar) Top() int { return b.Y - 12 }

// After is where the part of Redis begins, behind that of the web server.
func (b bar) After() float64 { return barLeft + b.Web }

// The bars begin and end at most here.
const barLeft, barRight = 356, 740

// WriteChart draws each row's processor time over that of its base as an SVG, the web server's and behind it
// Redis's. A row that is not separable has no bar, an invalid one is left out. The longest bar is
// that of a row that is not long; longer ones are cut.
func WriteChart(w io.Writer, groups []*Group) error {
	chart := struct {
		Description string
		Height      int
		Bars        []bar
	}{Height: 64}
	longest := 1.0
	for _, g := range groups {
		heading := bar{Label: g.Title, Y: chart.Height + 24}
		for _, r := range g.Rows {
			if r.NoBar || r.Check || r.Base == r || r.Wrong() > 0 {
				continue
			}
			if heading.Label != "" {
				chart.Bars, chart.Height, chart.Description = append(chart.Bars, heading), heading.Y, chart.Description+g.Title+": "
				heading.Label = ""
			}
			chart.Height += 22
			b := r.bar()
			b.Y = chart.Height
			if !r.Long {
				longest = max(longest, b.Web+b.Store)
			}
			chart.Bars, chart.Description = append(chart.Bars, b), chart.Description+b.Label+". "
		}
	}
	for i := range chart.Bars {
		chart.Bars[i].scale(longest)
	}
	chart.Height += 16
	return chartTemplate.Execute(w, chart)
}

// bar returns the row's bar in microseconds. A median below 0 has none.
func (r *Row) bar() bar {
	added, store := r.Added(), r.Store()
	b := bar{Label: r.Title + " ", Class: "other"}
	if r.Ours {
		b.Class = "ours"
	}
	if !added.Separable() {
		b.Label += "not separable"
		return b
	}
	b.Web, b.Store = max(0, added.Median), store.Median
	b.Label += tenths(added.Median)
	if b.Store > 0 {
		b.Label += " + " + tenths(b.Store)
	}
	return b
}

// scale turns microseconds into pixels, of which the longest has all.
func (b *bar) scale(longest float64) {
	const room = barRight - barLeft
	b.Cut = b.Web+b.Store > longest
	b.Web = min(room, b.Web*room/longest)
	b.Store = min(room-b.Web, b.Store*room/longest)
}
