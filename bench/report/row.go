// Package report writes measurements of several rounds as a table, a page and a chart.
package report

import (
	"cmp"
	"time"
)

// Sample is the measurement of one row in one round.
type Sample struct {
	Rate     float64       // requests a second
	P50, P99 time.Duration // latency; the P99 may leave out requests whose reply was slowed down
	CPU      time.Duration // processor time of the web server for a request
	StoreCPU time.Duration // processor time of Redis for a request
	Resident int64         // bytes of memory of the web server
	Wrong    float64       // the fraction of requests without a response or with a wrong status
}

// tolerated is the fraction of responses that may be wrong. With more, the row is invalid.
const tolerated = 0.001

// Measure is the number of a sample that a row compares.
type Measure int

// The measures. CPU compares processor time by its difference and, beside it, throughput by its ratio.
// The others compare throughput or latencies by their ratio alone.
const (
	CPU Measure = iota
	Throughput
	P50
	P99
)

// value returns the number of a sample whose ratio is compared.
func (m Measure) value(s Sample) float64 {
	switch m {
	case P50:
		return s.P50.Seconds()
	case P99:
		return s.P99.Seconds()
	default:
		return s.Rate
	}
}

// Group holds rows under one heading.
type Group struct {
	Title string
	Note  string // for the page; may be empty
	Rows  []*Row
}

// Row is one line of the table.
type Row struct {
	Title   string
	Measure Measure
	Against *Row // the row of the comparison; nil: none
	Alone   bool // runs beside the web server: the compared row's processor time is not part of its own
	Target  Target
	Ours    bool // measures this repository's handler, for the chart
	Samples []Sample
}

// Ratios returns the ratios of the rounds, ascending.
func (r *Row) Ratios() []float64 {
	return perRound(r, func(own, base Sample) (float64, bool) {
		of := r.Measure.value(base)
		return r.Measure.value(own) / of, of > 0
	})
}

// Added returns the web server's processor time for a request of the rounds, ascending: what it takes
// more than the compared row.
func (r *Row) Added() []time.Duration {
	return perRound(r, func(own, base Sample) (time.Duration, bool) {
		if r.Alone {
			base.CPU = 0
		}
		return own.CPU - base.CPU, true
	})
}

// StoreCPU returns Redis's processor time for a request of the rounds, ascending.
func (r *Row) StoreCPU() []time.Duration {
	return ascending(r.Samples, func(s Sample) time.Duration { return s.StoreCPU })
}

// perRound compares the row's sample of each round with the other row's, and returns the results
// ascending. Without another row there are none.
func perRound[N cmp.Ordered](r *Row, compare func(own, base Sample) (N, bool)) []N {
	if r.Against == nil {
		return nil
	}
	var results []N
	for i := range min(len(r.Samples), len(r.Against.Samples)) {
		if n, ok := compare(r.Samples[i], r.Against.Samples[i]); ok {
			results = append(results, n)
		}
	}
	return ascending(results, func(n N) N { return n })
}

// Ratio returns the median of the rounds' ratios, 0 where there are none.
func (r *Row) Ratio() float64 { return median(r.Ratios()) }

// Median returns a sample of medians: each number is the median of the rounds.
func (r *Row) Median() Sample {
	return Sample{
		Rate:     medianOf(r.Samples, func(s Sample) float64 { return s.Rate }),
		P50:      medianOf(r.Samples, func(s Sample) time.Duration { return s.P50 }),
		P99:      medianOf(r.Samples, func(s Sample) time.Duration { return s.P99 }),
		CPU:      medianOf(r.Samples, func(s Sample) time.Duration { return s.CPU }),
		StoreCPU: median(r.StoreCPU()),
		Resident: medianOf(r.Samples, func(s Sample) int64 { return s.Resident }),
	}
}

// Wrong returns the largest fraction of wrong responses of a round, 0 where it is tolerated.
func (r *Row) Wrong() float64 {
	wrong := 0.0
	for _, s := range r.Samples {
		if s.Wrong > tolerated {
			wrong = max(wrong, s.Wrong)
		}
	}
	return wrong
}
