package main

import (
	"fmt"
	"strings"
	"time"
)

// curve is a line as it is drawn: from what the curves beneath it add up to, where they are stacked.
type curve struct {
	points  []point
	floor   []float64 // of each point
	stacked bool
}

// curvesOf makes a curve of every line, and says how high the highest goes.
func curvesOf(p panel, stacked bool) (curves []curve, highest float64) {
	reached := map[float64]float64{} // by time
	for _, l := range p.lines {
		c := curve{stacked: stacked}
		for _, pt := range l.points {
			floor := 0.0
			if stacked {
				floor = reached[pt.at]
			}
			reached[pt.at] = floor + pt.value
			highest = max(highest, floor+pt.value)
			c.points = append(c.points, point{pt.at, floor + pt.value})
			c.floor = append(c.floor, floor)
		}
		curves = append(curves, c)
	}
	return curves, highest
}

// path is the curve as an SVG path. It is interrupted where values are missing, and where a stacked
// one adds nothing and would only hide the one beneath it.
func (c curve) path(a axis, steps bool) string {
	var d strings.Builder
	drawing := false
	for i, p := range c.points {
		if c.stacked && p.value == c.floor[i] {
			drawing = false
			continue
		}
		x, y := place(p, a)
		switch {
		case !drawing || p.at-c.points[i-1].at > 1.5:
			drawing = true
			fmt.Fprintf(&d, "M%.1f %.1f", x, y)
		case steps:
			fmt.Fprintf(&d, "H%.1fV%.1f", x, y)
		default:
			fmt.Fprintf(&d, "L%.1f %.1f", x, y)
		}
	}
	return d.String()
}

// area is what lies between the curve and the one beneath it.
func (c curve) area(a axis) string {
	var d strings.Builder
	command := "M"
	for _, p := range c.points {
		x, y := place(p, a)
		fmt.Fprintf(&d, "%s%.1f %.1f", command, x, y)
		command = "L"
	}
	for i := len(c.points) - 1; i >= 0; i-- {
		x, y := place(point{c.points[i].at, c.floor[i]}, a)
		fmt.Fprintf(&d, "L%.1f %.1f", x, y)
	}
	return d.String() + "Z"
}

func place(p point, a axis) (x, y float64) {
	return across(time.Duration(p.at * float64(time.Second))), a.up(p.value)
}
