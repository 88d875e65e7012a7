package replay

import (
	"math"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

// chartScale maps values to places: low is drawn at start and high at end, in either direction.
type chartScale struct {
	low, high, start, end float64
	log                   bool // then low and high are above 0
}

// at returns the place of a value.
func (s chartScale) at(value float64) float64 {
	low, high := s.low, s.high
	if s.log {
		value, low, high = math.Log(value), math.Log(low), math.Log(high)
	}
	if high == low {
		return s.start
	}
	return s.start + (value-low)/(high-low)*(s.end-s.start)
}

// roundSteps returns the steps from 0 to at least high for an axis of about so many ticks. The size of a step is 1,
// 2 or 5 times a power of ten, and at least least.
func roundSteps(high, least float64, ticks int) []float64 {
	step := max(high/float64(ticks), least, math.SmallestNonzeroFloat32)
	power := math.Pow(10, math.Floor(math.Log10(step)))
	for _, m := range []float64{1, 2, 5, 10} {
		if m*power >= step*0.999 {
			step = m * power
			break
		}
	}
	steps := make([]float64, 1+max(1, int(math.Ceil(high/step-1e-9))))
	for i := range steps {
		steps[i] = float64(i) * step
	}
	return steps
}

// percentSteps returns the steps of an axis of percents. If all values are 0 it reaches 100, so that they do not
// look like a small percentage.
func percentSteps(high float64, ticks int) []float64 {
	if high == 0 {
		high = 100
	}
	return roundSteps(high, 0.01, ticks)
}

// logSteps returns round values for a logarithmic axis, with room between their labels: the fewer in a decade, the
// more decades there are. They begin at 1, because counts below one do not exist.
func logSteps(low, high float64) []float64 {
	rounds := []float64{1, 2, 3, 5, 7}
	switch {
	case high > low*1e3:
		rounds = rounds[:1]
	case high > low*10:
		rounds = []float64{1, 2, 5}
	}
	low = max(low, 1)
	var steps []float64
	for power := math.Pow(10, math.Floor(math.Log10(low))); power <= high; power *= 10 {
		for _, r := range rounds {
			if value := r * power; value >= low*0.999 && value <= high*1.001 {
				steps = append(steps, value)
			}
		}
	}
	for len(steps) > 9 { // more decades than their labels have room for
		for i := range (len(steps) + 1) / 2 {
			steps[i] = steps[2*i]
		}
		steps = steps[:(len(steps)+1)/2]
	}
	return steps
}

func axisCount(value float64) string { return display.Count(int64(math.Round(value))) }

func axisPercent(value float64) string { return display.Decimal(value, 4) + noBreak + "%" }

// logAxis draws round values and their unit below a chart.
func (c *chart) logAxis(x chartScale, bottom float64, name string) {
	for _, value := range logSteps(x.low, x.high) {
		place, label := x.at(value), axisCount(value)
		c.line("base", place, bottom, place, bottom+5)
		c.text("tick", "middle", min(place, x.end-textWidth(label)/2+8), bottom+18, label)
	}
	c.text("unit", "end", x.end, bottom+36, name)
}

// rowsAxis draws the lines of a vertical axis along a horizontal one, with a label before each.
func (c *chart) rowsAxis(y chartScale, values []float64, x chartScale, label func(float64) string) {
	for i, value := range values {
		class := "grid"
		if i == 0 {
			class = "base"
		}
		c.line(class, x.start, y.at(value), x.end, y.at(value))
		c.text("tick", "end", x.start-6, y.at(value)+4, label(value))
	}
}

// labelRoom returns the width of the labels before an axis.
func labelRoom(values []float64, label func(float64) string) float64 {
	room := 0.0
	for _, value := range values {
		room = max(room, textWidth(label(value)))
	}
	return room + 8
}
