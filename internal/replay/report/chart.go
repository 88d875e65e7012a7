package report

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// chart is a picture and a table with the same numbers. It has a wide and a narrow view. The style sheet shows the
// one that fits, so that letters keep their size on a phone.
type chart struct {
	ID, Title, Desc string
	Legend          []chartKey
	Views           []chartView
	Table           reportTable
}

// chartKey explains a mark: its class and its meaning.
type chartKey struct{ Class, Text string }

// chartView is one drawing. Letters are drawn over all lines.
type chartView struct {
	Class         string
	Width, Height float64
	Paths         []chartPath
	Texts         []chartText
}

// chartPath is a line or an area. Its title is shown under the mouse.
type chartPath struct{ Class, D, Title string }

// chartText is a line of letters. X and Y are the place of its start, middle or end on the baseline.
type chartText struct {
	Class, Anchor, Text string
	X, Y                float64
}

// chartSizes are the views of a chart: class, width, height of a panel, and the largest numbers of ticks on an axis
// of time and of steps in a timeline.
var chartSizes = []chartSize{
	{class: "wide", width: 760, height: 210, ticks: 9, steps: 300},
	{class: "narrow", width: 348, height: 170, ticks: 4, steps: 120},
}

type chartSize struct {
	class         string
	width, height float64
	ticks, steps  int
}

// letter is the approximate width of a letter in a chart.
const letter = 7.2

func textWidth(text string) float64 { return letter * float64(utf8.RuneCountInString(text)) }

func (v *chartView) path(class, d string) { v.Paths = append(v.Paths, chartPath{Class: class, D: d}) }

func (v *chartView) text(class, anchor string, x, y float64, text string) {
	v.Texts = append(v.Texts, chartText{Class: class, Anchor: anchor, Text: text, X: round1(x), Y: round1(y)})
}

// box is a rectangle with a text for the mouse.
func (v *chartView) box(class string, left, top, right, bottom float64, title string) {
	d := "M" + at(left, bottom) + "V" + px(top) + "H" + px(right) + "V" + px(bottom) + "Z"
	v.Paths = append(v.Paths, chartPath{Class: class, D: d, Title: title})
}

func (v *chartView) line(class string, x1, y1, x2, y2 float64) {
	v.path(class, "M"+at(x1, y1)+"L"+at(x2, y2))
}

// px returns a coordinate with at most one decimal: more would be invisible.
func px(x float64) string { return strconv.FormatFloat(round1(x), 'f', -1, 64) }

func at(x, y float64) string { return px(x) + " " + px(y) }

func round1(x float64) float64 { return math.Round(x*10) / 10 }

// polyline connects points.
func polyline(xs, ys []float64) string {
	var b strings.Builder
	for i := range xs {
		b.WriteString([]string{"L", "M"}[btoi(i == 0)] + at(xs[i], ys[i]))
	}
	return b.String()
}

// btoi returns the index in a pair: 0 for false, 1 for true.
func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
