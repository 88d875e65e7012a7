// Package chart draws the pictures of docs/: plots in one style, below one title and one legend. Each
// picture is an SVG that needs no other file and follows the reader's dark scheme.
package chart

import (
	"bytes"
	"fmt"
	"html"
	"image/color"
	"io"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Distances in pixels.
const (
	gap     = 12
	header  = 62 // from a picture's top to its first panel
	heading = 36 // from a panel's top to its plot
	entry   = 16 // from one row of a legend to the next
)

// Picture is panels in rows. Their plots have one size, and every row is full.
type Picture struct {
	Title, Description string
	Width, Height      vg.Length // of the picture, in pixels
	Columns            int       // panels in a row
	Legend             Legend    // of all panels
	Panels             []*Panel
}

// Panel is a plot with its title above it and its legend below it.
type Panel struct {
	*plot.Plot

	Title  string
	Legend Legend
}

// Write draws the picture as an SVG.
func (p Picture) Write(w io.Writer) error {
	plots := make([][]*plot.Plot, len(p.Panels)/p.Columns)
	below := vg.Length(0) // the room for the highest legend
	for i, panel := range p.Panels {
		plots[i/p.Columns] = append(plots[i/p.Columns], panel.Plot)
		below = max(below, panel.Legend.draw(draw.Canvas{}, p.Width/vg.Length(p.Columns)-4*gap))
	}
	tiles := draw.Tiles{
		Rows: len(plots), Cols: p.Columns, PadTop: header + heading, PadBottom: below + 2*gap,
		PadLeft: 2 * gap, PadRight: 2 * gap, PadX: 3 * gap, PadY: below + 2*gap + heading,
	}
	canvas := vgsvg.New(p.Width, p.Height)
	page := draw.New(canvas)
	frame(page, paper)
	page.FillText(bold(16), vg.Point{X: gap, Y: page.Max.Y - 26}, p.Title)
	p.Legend.draw(draw.Crop(page, gap, 0, 0, -38), p.Width)
	for i, aligned := range plot.Align(plots, tiles, page) {
		for j, c := range aligned {
			panel, tile := p.Panels[i*p.Columns+j], tiles.At(page, j, i)
			frame(draw.Crop(tile, -gap, gap, -below-gap, heading), surface)
			page.FillText(bold(13), tile.Min.Add(vg.Point{Y: tile.Size().Y + 14}), panel.Title)
			panel.Draw(c)
			tile.Max.Y = tile.Min.Y - gap/2
			panel.Legend.draw(tile, tile.Size().X)
		}
	}
	return p.finish(w, canvas)
}

// frame paints a canvas and a line around it.
func frame(c draw.Canvas, paint color.Color) {
	corners := []vg.Point{c.Min, {X: c.Max.X, Y: c.Min.Y}, c.Max, {X: c.Min.X, Y: c.Max.Y}, c.Min}
	c.FillPolygon(paint, corners)
	c.StrokeLines(Hairline, corners)
}

// Legend says what the colors mean.
type Legend []Entry

// Entry is a name and a sample of how it is drawn.
type Entry struct {
	Name   string
	Sample plot.Thumbnailer
}

// draw writes the entries in rows of a width, from the canvas's upper left corner on, and returns their
// height. It only measures where there is no canvas.
func (l Legend) draw(c draw.Canvas, width vg.Length) (height vg.Length) {
	x := width
	for _, e := range l {
		one := plot.NewLegend()
		one.Top, one.Left, one.ThumbnailWidth = true, true, 14
		one.TextStyle.Font, one.TextStyle.Color = sans(11), ink
		one.Add(e.Name, e.Sample)
		room := one.ThumbnailWidth + one.TextStyle.Width("  "+e.Name) + gap
		if x+room > width {
			x, height = 0, height+entry
		}
		if one.XOffs, one.YOffs = x, entry-height; c.Canvas != nil {
			one.Draw(c)
		}
		x += room
	}
	return height
}

// dark turns light colors dark and keeps their hue.
const dark = `<style>@media (prefers-color-scheme: dark) { svg > g { filter: invert(0.93) hue-rotate(180deg) } }</style>`

// finish writes the canvas with a title and a description for screen readers. Where the font of the
// plots is missing, another one of the same widths takes its place. A unit of the canvas is a pixel.
func (p Picture) finish(w io.Writer, canvas *vgsvg.Canvas) error {
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return err
	}
	_, err := strings.NewReplacer(
		`pt"`, `"`,
		`xmlns:xlink="http://www.w3.org/1999/xlink">`, fmt.Sprintf(
			`role="img" aria-labelledby="title description"><title id="title">%s</title><desc id="description">%s</desc>%s`,
			html.EscapeString(p.Title), html.EscapeString(p.Description), dark),
		`font-family:Liberation Sans;font-variant:normal;`, `font-family:Liberation Sans,Arial,Helvetica,sans-serif;`,
		`font-weight:normal;font-style:normal;`, ``,
	).WriteString(w, svg.String())
	return err
}
