package report

import (
	_ "embed"
	"fmt"
	"io"
	"text/template"
	"time"
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
}

// Top is the upper edge of the bar.
func (b bar) Top() int { return b.Y - 12 }

// After is where the part of Redis begins, behind that of the web server.
func (b bar) After() float64 { return barLeft + b.Web }

// The bars begin and end at most here.
const barLeft, barRight = 316, 740

// WriteChart draws each row's processor time over that of its group's first row as an SVG, the web
// server's and behind it Redis's. Invalid rows are left out.
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
			if !r.hasAdded() || r.Wrong() > 0 {
				continue
			}
			if heading.Label != "" {
				chart.Bars, chart.Height, chart.Description = append(chart.Bars, heading), heading.Y, chart.Description+g.Title+": "
				heading.Label = ""
			}
			chart.Height += 22
			b := r.bar()
			b.Y = chart.Height
			longest = max(longest, b.Web+b.Store)
			chart.Bars, chart.Description = append(chart.Bars, b), chart.Description+b.Label+". "
		}
	}
	for i := range chart.Bars {
		b, scale := &chart.Bars[i], (barRight-barLeft)/longest
		b.Web, b.Store = b.Web*scale, b.Store*scale
	}
	chart.Height += 16
	return chartTemplate.Execute(w, chart)
}

// bar returns the row's bar in microseconds. Where noise makes the difference negative, the web server's part is
// empty.
func (r *Row) bar() bar {
	micro := func(d time.Duration) float64 { return d.Seconds() * 1e6 }
	b := bar{Label: r.Title + " " + added(r), Class: "other", Web: max(0, micro(median(r.Added()))), Store: micro(median(r.StoreCPU()))}
	if b.Store > 0 {
		b.Label += " + " + micros(median(r.StoreCPU()))
	}
	if r.Ours {
		b.Class = "ours"
	}
	return b
}
