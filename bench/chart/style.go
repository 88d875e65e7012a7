package chart

import (
	"image/color"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The colors. Those of lines and areas are named.
var (
	Blue  = color.NRGBA{0x1f, 0x6f, 0xeb, 0xff}
	Red   = color.NRGBA{0xcf, 0x22, 0x2e, 0xff}
	Amber = color.NRGBA{0xbf, 0x87, 0x00, 0xff}
	Gray  = color.NRGBA{0x8a, 0x94, 0xa0, 0xff}
	Pale  = color.NRGBA{0xc4, 0xcb, 0xd3, 0xff}

	ink     = color.NRGBA{0x1f, 0x23, 0x28, 0xff}
	paper   = color.NRGBA{0xf6, 0xf8, 0xfa, 0xff}
	surface = color.NRGBA{0xff, 0xff, 0xff, 0xff}
)

// Series are colors to tell lines apart.
var Series = []color.NRGBA{
	Blue, Red, {0x1a, 0x7f, 0x37, 0xff}, Amber, {0x82, 0x50, 0xdf, 0xff},
	{0x0e, 0x8a, 0x9c, 0xff}, {0xbc, 0x4c, 0x00, 0xff}, {0xbf, 0x39, 0x89, 0xff}, Gray,
}

// Hairline is the style of frames and grids.
var Hairline = draw.LineStyle{Color: Pale, Width: 0.7}

// NewPanel returns an empty panel. Its axes have labels alone.
func NewPanel(title string) *Panel {
	p := plot.New()
	p.BackgroundColor = nil
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Padding, axis.Width, axis.Tick.Length = 0, 0, 0
		axis.Tick.Label.Font, axis.Tick.Label.Color = sans(11), ink
	}
	p.X.Padding = 4
	return &Panel{Plot: p, Title: title}
}

// Line is a line through points, for a plot or for a legend.
func Line(paint color.Color, points ...plotter.XY) *plotter.Line {
	return &plotter.Line{XYs: points, LineStyle: draw.LineStyle{Color: paint, Width: 1.6}}
}

// Area is what points surround, for a plot or for a legend. The opacity is at most 1.
func Area(paint color.NRGBA, opacity float64, points ...plotter.XY) *plotter.Polygon {
	paint.A = uint8(opacity * 0xff)
	return &plotter.Polygon{XYs: []plotter.XYs{points}, Color: paint}
}

// Heading is a bold text to the right of a point.
func Heading(words string, at plotter.XY) *plotter.Labels {
	return &plotter.Labels{XYs: plotter.XYs{at}, Labels: []string{words}, TextStyle: []text.Style{bold(12)}}
}

// sans returns the font in a size in pixels. Its letters are as wide as those of Arial and Helvetica.
func sans(size vg.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}

func bold(size vg.Length) text.Style {
	style := text.Style{Font: sans(size), Color: ink, Handler: plot.DefaultTextHandler}
	style.Font.Weight = xfont.WeightBold
	return style
}
