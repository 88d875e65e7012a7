package main

import (
	"math"
	"strconv"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/deploy/dashboard"
)

// axis is the values of a panel's height: from 0 to most, with a mark at every step.
type axis struct{ most, step float64 }

// axisFor is the axis on which all values have room, unless the dashboard says where it ends.
func axisFor(field dashboard.Field, highest float64) axis {
	if field.Max != nil && len(field.Mappings) > 0 {
		return axis{*field.Max * 1.15, *field.Max}
	}
	if highest <= 0 {
		highest = 1
	}
	if field.Unit == "percentunit" {
		highest = min(highest, 1)
	}
	step := math.Pow(10, math.Floor(math.Log10(highest/2)))
	for _, times := range []float64{1, 2, 5, 10} {
		if highest/(step*times) <= 4 {
			step *= times
			break
		}
	}
	return axis{math.Ceil(highest/step-1e-9) * step, step}
}

// format writes a value in the panel's unit, in Grafana's words for it.
func format(field dashboard.Field, value float64) string {
	for _, m := range field.Mappings {
		if word, ok := m.Options[strconv.FormatFloat(value, 'f', -1, 64)]; ok {
			return word.Text
		}
	}
	switch field.Unit {
	case "percentunit":
		return number(value*100) + " %"
	case "s":
		if value == 0 {
			return "0"
		}
		if value < 1e-3 {
			return number(value*1e6) + " µs"
		}
		return number(value*1e3) + " ms"
	case "reqps":
		return thousands(value) + "/s"
	}
	return thousands(value)
}

func thousands(value float64) string {
	if value >= 1000 {
		return number(value/1000) + "k"
	}
	return number(value)
}

// number writes three digits at most, which hides what adding up has left behind.
func number(value float64) string {
	return strconv.FormatFloat(math.Round(value*100)/100, 'f', -1, 64)
}
