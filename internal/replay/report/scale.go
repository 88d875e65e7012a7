package report

import (
	"math"
	"strconv"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/humanize"
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
	n := max(1, int(math.Ceil(high/step-1e-9)))
	steps := make([]float64, n+1)
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

// logSteps returns round values for a logarithmic axis, as many as leave room between their labels.
func logSteps(s chartScale) []float64 {
	for _, rounds := range [][]float64{{1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 2, 3, 4, 5, 6, 8}, {1, 2, 3, 5, 7}, {1, 2, 5}, {1, 3}, {1}} {
		if steps := logStepsOf(rounds, s.low, s.high); fits(s, steps) {
			return steps
		}
	}
	steps := logStepsOf([]float64{1}, s.low, s.high)
	for len(steps) > 1 && !fits(s, steps) {
		for i := range len(steps) / 2 {
			steps[i] = steps[2*i]
		}
		steps = steps[:len(steps)/2]
	}
	return steps
}

// labelAt returns the middle of a value's label: below the value, or further left near the end of the axis.
func labelAt(s chartScale, value float64) float64 {
	return min(s.at(value), s.end-textWidth(axisCount(value))/2+8)
}

// fits reports whether the labels of an axis keep a distance.
func fits(s chartScale, steps []float64) bool {
	for i := 1; i < len(steps); i++ {
		room := (textWidth(axisCount(steps[i-1])) + textWidth(axisCount(steps[i]))) / 2
		if labelAt(s, steps[i])-labelAt(s, steps[i-1]) < room+6 {
			return false
		}
	}
	return true
}

// logStepsOf returns the powers of ten times round numbers, from 1: counts below one do not exist.
func logStepsOf(rounds []float64, low, high float64) []float64 {
	low = max(low, 1)
	var steps []float64
	for power := math.Pow(10, math.Floor(math.Log10(low))); power <= high; power *= 10 {
		for _, r := range rounds {
			if value := r * power; value >= low*0.999 && value <= high*1.001 {
				steps = append(steps, value)
			}
		}
	}
	return steps
}

// axisCount returns a number for an axis. Large numbers are abbreviated.
func axisCount(value float64) string {
	for _, unit := range []struct {
		of   float64
		name string
	}{{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}} {
		if value >= unit.of {
			return strconv.FormatFloat(value/unit.of, 'f', -1, 64) + noBreak + unit.name
		}
	}
	return humanize.Count(int64(math.Round(value)))
}

func axisPercent(value float64) string {
	return humanize.Decimal(value, 4) + noBreak + "%"
}

// rowsAxis draws the lines of a vertical axis from left to right, with a label before each.
func rowsAxis(v *chartView, s chartScale, values []float64, left, right float64, label func(float64) string) {
	for _, value := range values {
		y := s.at(value)
		v.line([]string{"grid", "base"}[btoi(value == 0)], left, y, right, y)
		v.text("tick", "end", left-6, y+4, label(value))
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
