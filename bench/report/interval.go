package report

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Estimate is a median with its 95 % interval, in microseconds or as a ratio.
type Estimate struct {
	Median, Low, High float64
	rounds            int
}

// widest is below what the interval of a published row stays, in microseconds.
const widest = 1.0

// resamples is how often the bootstrap draws.
const resamples = 1000

// estimate returns the median of numbers, and its 95 % interval by the percentile bootstrap: between the
// medians that 2.5 % and 97.5 % of the resamples do not exceed. It draws alike for the same numbers.
func estimate(numbers []float64) Estimate {
	if len(numbers) == 0 {
		return Estimate{}
	}
	random := rand.New(rand.NewPCG(uint64(len(numbers)), 0))
	medians, drawn := make([]float64, resamples), make([]float64, len(numbers))
	for i := range medians {
		for j := range drawn {
			drawn[j] = numbers[random.IntN(len(numbers))]
		}
		medians[i] = median(drawn)
	}
	slices.Sort(medians)
	const outside = resamples / 40
	return Estimate{median(slices.Clone(numbers)), medians[outside], medians[resamples-1-outside], len(numbers)}
}

// Separable reports whether the interval is narrow enough to publish the median.
func (e Estimate) Separable() bool { return e.rounds > 1 && e.High-e.Low < widest }

// holdsZero reports whether the median may be 0, as that of equal servers must.
func (e Estimate) holdsZero() bool { return e.Separable() && e.Low <= 0 && e.High >= 0 }

// String writes the median, if it is separable, and the interval.
func (e Estimate) String() string {
	if e.rounds == 0 {
		return ""
	}
	number := "not separable"
	if e.Separable() {
		number = tenths(e.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", number, tenths(e.Low), tenths(e.High))
}

// median sorts numbers and returns their median; of an even count, the mean of the middle two.
func median[N ~int64 | ~float64](numbers []N) N {
	slices.Sort(numbers)
	n := len(numbers)
	if n == 0 {
		return 0
	}
	return (numbers[(n-1)/2] + numbers[n/2]) / 2
}
