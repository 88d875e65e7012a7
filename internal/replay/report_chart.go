package replay

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// chart is a picture and a table with the same numbers. Letters are drawn over all lines.
type chart struct {
	ID, Title, Desc string
	Legend          []chartKey
	Height          float64
	Paths           []chartPath
	Texts           []chartText
	Table           *reportTable
}

// chartKey explains a mark: its class and its meaning.
type chartKey struct{ Class, Text string }

// chartPath is a line or an area.
type chartPath struct{ Class, D string }

// chartText is a line of letters. X and Y are the place of its start, middle or end on the baseline.
type chartText struct {
	Class, Anchor, Text string
	X, Y                float64
}

const (
	// chartWidth is the width of a chart, chartRight where its axes end, panelHeight the height of its panel.
	chartWidth  = 760.0
	chartRight  = chartWidth - 14
	panelHeight = 210.0

	// letter is the approximate width of a letter in a chart.
	letter = 7.2
)

// Width is the width of any chart, for the template.
func (c *chart) Width() float64 { return chartWidth }

func textWidth(text string) float64 { return letter * float64(utf8.RuneCountInString(text)) }

func (c *chart) path(class, d string) { c.Paths = append(c.Paths, chartPath{class, d}) }

func (c *chart) text(class, anchor string, x, y float64, text string) {
	c.Texts = append(c.Texts, chartText{Class: class, Anchor: anchor, Text: text, X: round1(x), Y: round1(y)})
}

func (c *chart) line(class string, x1, y1, x2, y2 float64) {
	c.path(class, "M"+at(x1, y1)+"L"+at(x2, y2))
}

// px returns a coordinate with at most one decimal: more would be invisible.
func px(x float64) string { return strconv.FormatFloat(round1(x), 'f', -1, 64) }

func at(x, y float64) string { return px(x) + " " + px(y) }

func round1(x float64) float64 { return math.Round(x*10) / 10 }

// polyline connects points of two scales.
func polyline(x chartScale, xs []float64, y chartScale, ys []float64) string {
	points := make([]string, len(xs))
	for i := range xs {
		points[i] = at(x.at(xs[i]), y.at(ys[i]))
	}
	return "M" + strings.Join(points, "L")
}
