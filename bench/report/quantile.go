package report

import (
	"cmp"
	"slices"
)

type number interface {
	~int64 | ~float64
}

// ascending returns a number of each item, sorted.
func ascending[T any, N cmp.Ordered](items []T, of func(T) N) []N {
	numbers := make([]N, len(items))
	for i, item := range items {
		numbers[i] = of(item)
	}
	slices.Sort(numbers)
	return numbers
}

func medianOf[N number](samples []Sample, of func(Sample) N) N { return median(ascending(samples, of)) }

// median returns the median of ascending numbers; of an even count, the mean of the middle two.
func median[N number](ascending []N) N {
	n := len(ascending)
	if n == 0 {
		return 0
	}
	return (ascending[(n-1)/2] + ascending[n/2]) / 2
}

// quartiles returns the numbers that a quarter and three quarters of ascending numbers do not exceed,
// between two of them by their distance. There must be one number at least.
func quartiles[N number](ascending []N) (first, third N) {
	at := func(quarter int) N {
		place := quarter * (len(ascending) - 1) // in quarters of the distance of two numbers
		low := ascending[place/4]
		high := ascending[min(place/4+1, len(ascending)-1)]
		return low + (high-low)*N(place%4)/4
	}
	return at(1), at(3)
}
