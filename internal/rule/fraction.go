package rule

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
)

// Fraction is a part of a whole, in millionths.
type Fraction int64

// whole is the fraction 1.
const whole Fraction = 1_000_000

// ParseFraction reads a percentage from 0 to 100 with at most four decimals.
func ParseFraction(percent float64) (Fraction, error) {
	const step = 100 / float64(whole) // in percent
	millionths := math.Round(percent / step)
	switch {
	case !(percent >= 0 && percent <= 100):
		return 0, errors.New("use a percentage from 0% to 100%")
	case math.Abs(percent/step-millionths) > 1e-6:
		return 0, errors.New("use at most four decimals")
	}
	return Fraction(millionths), nil
}

// Percent returns the fraction as a percentage.
func (f Fraction) Percent() float64 { return float64(f) * 100 / float64(whole) }

// String returns the fraction as in a Caddyfile, such as 12.5%.
func (f Fraction) String() string { return percentText(f.Percent()) }

func percentText(percent float64) string { return strconv.FormatFloat(percent, 'f', -1, 64) + "%" }

// Of returns the fraction of a number from 0 on, rounded up.
func (f Fraction) Of(n int64) int64 {
	high, low := bits.Mul64(uint64(n), uint64(f))
	quotient, rest := bits.Div64(high, low, uint64(whole))
	if rest > 0 {
		quotient++
	}
	return int64(quotient)
}

// maxMarks is the most percentages of the option notify.
const maxMarks = 10

// ParseMarks reads the option notify: percentages of a capacity, each once. It returns them in ascending order.
func ParseMarks(percents []float64) ([]Fraction, error) {
	if len(percents) > maxMarks {
		return nil, fmt.Errorf("notify: %d percentages; use at most %d", len(percents), maxMarks)
	}
	var marks []Fraction
	for _, percent := range percents {
		mark, err := ParseFraction(percent)
		switch {
		case !(percent > 0 && percent <= 100):
			err = errors.New("use a percentage above 0%, up to 100%")
		case slices.Contains(marks, mark):
			err = errors.New("is given twice; leave one out")
		}
		if err != nil {
			return nil, fmt.Errorf("notify %s: %w", percentText(percent), err)
		}
		marks = append(marks, mark)
	}
	slices.Sort(marks)
	return marks, nil
}
