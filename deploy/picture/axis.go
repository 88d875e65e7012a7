package main

import (
	"math"
	"strconv"

	"gonum.org/v1/plot"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/deploy/dashboard"
)

// axis formats the values of a panel.
type axis struct{ dashboard.Field }

// ticks returns marks in round steps, from zero to the first that no value exceeds.
func (a axis) ticks(highest float64) plot.ConstantTicks {
	if highest <= 0 {
		highest = 1
	}
	step := math.Pow(10, math.Floor(math.Log10(highest/2)))
	for _, times := range []float64{1, 2, 5, 10} {
		if highest <= 4*step*times {
			step *= times
			break
		}
	}
	var marks plot.ConstantTicks
	for i := range int(math.Ceil(highest/step-1e-9)) + 1 {
		value := float64(i) * step
		marks = append(marks, plot.Tick{Value: value, Label: a.format(value)})
	}
	return marks
}

// format writes a value as Grafana does. Where some values are mapped to words, the others have no label.
func (a axis) format(value float64) string {
	switch {
	case len(a.Mappings) > 0:
		return a.Mappings[0].Options[number(value)].Text
	case a.Unit == "percentunit":
		return number(value*100) + " %"
	case a.Unit == "s" && value > 0 && value < 1e-3:
		return number(value*1e6) + " µs"
	case a.Unit == "s":
		return number(value*1e3) + " ms"
	case a.Unit == "reqps":
		return number(value) + "/s"
	}
	return number(value)
}

// number formats a value with at most two digits after the point, without rounding errors.
func number(value float64) string {
	return strconv.FormatFloat(math.Round(value*100)/100, 'f', -1, 64)
}
