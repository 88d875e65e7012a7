package report

import (
	"fmt"
	"io"
	"text/template"
)

// The chart's measures, in pixels.
const (
	chartWidth  = 760
	chartValues = 250 // where values begin, after the labels
	chartBars   = 292 // where bars begin
	chartOne    = 310 // the length of a bar of 1.00
	chartMost   = 450 // the length of the longest bar that there is room for
	chartRow    = 24
	chartHead   = 34
	chartTop    = 58
)

// bar is one row of the chart.
type bar struct {
	Label, Value string
	Class        string // base, ours or theirs
	Y, Length    int
	Target       int // where the target's mark stands; 0: none
}

// heading is the title over a group's bars.
type heading struct {
	Text string
	Y    int
}

type chart struct {
	Width, Height, Values, Bar, Row, One int
	Description                          string
	Headings                             []heading
	Bars                                 []bar
}

// WriteChart draws the throughput of each row in proportion to its group's first as an SVG that
// needs nothing but itself. Rows that compare latencies and invalid ones are left out.
func WriteChart(w io.Writer, groups []*Group) error {
	c := chart{Width: chartWidth, Values: chartValues, Bar: chartBars, Row: chartRow, One: chartBars + chartOne}
	y := chartTop
	for _, g := range groups {
		y = c.add(g, y)
	}
	c.Height = y + chartRow/2
	return chartTemplate.Execute(w, c)
}

// add draws a group from a height on and returns the height where it ends.
func (c *chart) add(g *Group, y int) int {
	titled := false
	for _, r := range g.Rows {
		if r.Measure != Throughput || r.Against == nil || len(r.Samples) == 0 || r.Wrong() > 0 {
			continue
		}
		if !titled {
			titled = true
			c.Headings = append(c.Headings, heading{g.Title, y + chartHead - 12})
			c.Description += fmt.Sprintf("%s: ", g.Title)
			y += chartHead
		}
		b := bar{Label: r.Title, Value: ratio(r), Class: "theirs", Y: y, Length: min(max(1, int(r.Ratio()*chartOne)), chartMost)}
		switch {
		case r.Against == r:
			b.Class = "base"
		case r.Ours:
			b.Class = "ours"
		}
		if r.Target.AtLeast > 0 {
			b.Target = chartBars + int(r.Target.AtLeast*chartOne)
		}
		c.Bars = append(c.Bars, b)
		c.Description += fmt.Sprintf("%s %s. ", r.Title, b.Value)
		y += chartRow
	}
	return y
}

var chartTemplate = template.Must(template.New("chart").Funcs(template.FuncMap{
	"add": func(a, b int) int { return a + b },
}).Parse(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {{.Width}} {{.Height}}" width="{{.Width}}" height="{{.Height}}" role="img" aria-labelledby="title description">
<title id="title">Throughput; the first bar of each group is 1.00</title>
<desc id="description">{{html .Description}}</desc>
<style>
svg { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; }
.paper { fill: #ffffff; }
text { fill: #1f2328; }
.quiet { fill: #59636e; }
.heading { font-weight: 600; }
.base { fill: #c4cbd3; }
.theirs { fill: #8a94a0; }
.ours { fill: #1f6feb; }
.target { stroke: #cf222e; stroke-width: 2; }
.one { stroke: #c4cbd3; stroke-dasharray: 2 3; }
@media (prefers-color-scheme: dark) {
.paper { fill: #0d1117; }
text { fill: #e6edf3; }
.quiet { fill: #9198a1; }
.base { fill: #3d444d; }
.theirs { fill: #6e7681; }
.ours { fill: #4493f8; }
.target { stroke: #ff7b72; }
.one { stroke: #3d444d; }
}
</style>
<rect class="paper" width="{{.Width}}" height="{{.Height}}"/>
<text class="heading" x="16" y="26" font-size="16">Throughput; the first bar of each group is 1.00</text>
<text class="quiet" x="16" y="46">Longer is better. The red mark is this project's target.</text>
<line class="one" x1="{{.One}}" y1="62" x2="{{.One}}" y2="{{.Height}}"/>
{{range .Headings}}<text class="heading" x="16" y="{{.Y}}">{{html .Text}}</text>
{{end}}{{range .Bars}}<text x="{{add $.Values -10}}" y="{{add .Y 16}}" text-anchor="end">{{html .Label}}</text>
<rect class="{{.Class}}" x="{{$.Bar}}" y="{{add .Y 4}}" width="{{.Length}}" height="{{add $.Row -8}}" rx="2"/>
{{if .Target}}<line class="target" x1="{{.Target}}" y1="{{add .Y 2}}" x2="{{.Target}}" y2="{{add .Y (add $.Row -2)}}"/>
{{end}}<text x="{{$.Values}}" y="{{add .Y 16}}">{{.Value}}</text>
{{end}}</svg>
`))
