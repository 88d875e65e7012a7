package main

import (
	"fmt"
	"io"
	"strings"
	"text/template"
	"time"
)

// The picture's measures, in pixels.
const (
	width      = 900
	top        = 62 // beneath the picture's title
	gap        = 12
	panelWidth = (width - 3*gap) / 2
	plotLeft   = 58 // where a panel's plot begins, after the axis
	plotTop    = 36 // beneath the panel's title
	plotWidth  = panelWidth - plotLeft - 16
	plotHeight = 140
	legendTop  = plotTop + plotHeight + 24
	legendLine = 18
	letter     = 6.0 // the width of a letter of the legend, on the safe side
	colors     = 9   // how many the style has
)

// mark is a line of the grid, or a word, at a place of the plot.
type mark struct {
	At   float64
	Text string
}

// shape is a series: its line, and what is filled beneath it.
type shape struct {
	Color      int
	Line, Area string
}

// entry is a line of the legend.
type entry struct {
	Color int
	X, Y  float64
	Text  string
}

// box is a panel with its place.
type box struct {
	X, Y, Height   float64
	Title          string
	Values, Times  []mark
	Shapes         []shape
	Legend         []entry
	Flood, FloodW  float64
	Outage, OutedW float64
}

// draw writes the panels as an SVG of two columns that needs nothing but itself.
func draw(w io.Writer, panels []panel) error {
	y := float64(top)
	var boxes []box
	for i := 0; i < len(panels); i += 2 {
		pair := panels[i:min(i+2, len(panels))]
		highest := 0.0
		for j, p := range pair {
			b := boxOf(p)
			b.X, b.Y = float64(gap+j*(panelWidth+gap)), y
			highest = max(highest, b.Height)
			boxes = append(boxes, b)
		}
		for j := range pair {
			boxes[i+j].Height = highest
		}
		y += highest + gap
	}
	return page.Execute(w, map[string]any{
		"Width": width, "Height": y, "PanelWidth": panelWidth,
		"Left": plotLeft, "Top": plotTop, "PlotWidth": plotWidth, "PlotHeight": float64(plotHeight), "Bottom": plotTop + plotHeight,
		"Boxes": boxes, "Flood": span(floodBegins, floodEnds), "Outage": span(outageBegins, outageEnds),
	})
}

func boxOf(p panel) box {
	b := box{Title: p.Title, Flood: across(floodBegins), FloodW: across(floodEnds) - across(floodBegins), Outage: across(outageBegins), OutedW: across(outageEnds) - across(outageBegins)}
	stacked := p.FieldConfig.Defaults.Custom.Stacking.Mode == "normal"
	curves, highest := curvesOf(p, stacked)
	scale := axisFor(p.FieldConfig.Defaults, highest)
	for value := 0.0; value <= scale.most*1.0001; value += scale.step {
		b.Values = append(b.Values, mark{scale.up(value), format(p.FieldConfig.Defaults, value)})
	}
	for at := time.Duration(0); at < length; at += 20 * time.Second {
		b.Times = append(b.Times, mark{across(at), clock(at)})
	}
	for i, c := range curves {
		s := shape{Color: i % colors, Line: c.path(scale, p.FieldConfig.Defaults.Custom.Interpolation == "stepAfter")}
		if stacked {
			s.Area = c.area(scale)
		}
		b.Shapes = append(b.Shapes, s)
	}
	x, y := float64(gap), float64(legendTop)+legendLine
	for i, l := range p.lines {
		room := 20 + letter*float64(len(l.name)) + 14
		if x > gap && x+room > panelWidth {
			x, y = gap, y+legendLine
		}
		b.Legend = append(b.Legend, entry{i % colors, x, y, l.name})
		x += room
	}
	b.Height = y + gap
	return b
}

// across is how far from the plot's left side a time is.
func across(at time.Duration) float64 { return plotWidth * at.Seconds() / length.Seconds() }

// up is how far from the plot's upper side a value is.
func (a axis) up(value float64) float64 { return plotHeight * (1 - min(value, a.most)/a.most) }

func clock(at time.Duration) string {
	return fmt.Sprintf("%d:%02d", int(at.Minutes()), int(at.Seconds())%60)
}

func span(from, to time.Duration) string { return clock(from) + "–" + clock(to) }

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"html": template.HTMLEscapeString,
	"px":   func(value float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", value), ".0") },
	"add":  func(a, b float64) float64 { return a + b },
}).Parse(pageText))
