// Package report writes measurements of several rounds as a table, a page and a chart.
package report

import (
	"fmt"
	"slices"
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

// The measures.
const (
	Throughput Measure = iota
	P50
	P99
)

// value returns the measure's number of a sample.
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

// Target bounds a row's ratio or latency. At most one field is set.
type Target struct {
	AtLeast float64       // of the ratio
	AtMost  float64       // of the ratio
	Within  time.Duration // of the latency itself
}

// String returns the target for the table, empty where there is none.
func (t Target) String() string {
	switch {
	case t.AtLeast > 0:
		return fmt.Sprintf(">= %.2f", t.AtLeast)
	case t.AtMost > 0:
		return fmt.Sprintf("<= %.2f", t.AtMost)
	case t.Within > 0:
		return fmt.Sprintf("<= %d ms", t.Within.Milliseconds())
	}
	return ""
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
	Against *Row // the row of the comparison; nil: no ratio
	Target  Target
	Ours    bool // measures this repository's handler, for the chart
	Samples []Sample
}

// Ratios returns the ratios of the rounds, ascending.
func (r *Row) Ratios() []float64 {
	if r.Against == nil {
		return nil
	}
	var ratios []float64
	for i := range min(len(r.Samples), len(r.Against.Samples)) {
		if base := r.Measure.value(r.Against.Samples[i]); base > 0 {
			ratios = append(ratios, r.Measure.value(r.Samples[i])/base)
		}
	}
	slices.Sort(ratios)
	return ratios
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
		StoreCPU: medianOf(r.Samples, func(s Sample) time.Duration { return s.StoreCPU }),
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

// Verdict returns "met" or "missed", and nothing where there is no target. It returns "invalid" where
// too many responses were wrong.
func (r *Row) Verdict() string {
	if r.Wrong() > 0 {
		return "invalid"
	}
	if r.Target == (Target{}) || len(r.Samples) == 0 {
		return ""
	}
	// The rounded numbers of the table count.
	ratio := float64(int64(r.Ratio()*100+0.5)) / 100
	met := ratio >= r.Target.AtLeast
	switch {
	case r.Target.AtMost > 0:
		met = ratio <= r.Target.AtMost
	case r.Target.Within > 0:
		met = r.Measure.value(r.Median()) <= r.Target.Within.Seconds()
	}
	if met {
		return "met"
	}
	return "missed"
}

func medianOf[N number](samples []Sample, of func(Sample) N) N {
	numbers := make([]N, len(samples))
	for i, s := range samples {
		numbers[i] = of(s)
	}
	slices.Sort(numbers)
	return median(numbers)
}

type number interface {
	~int64 | ~float64
}

// median returns the median of ascending numbers; of an even count, the mean of the middle two.
func median[N number](ascending []N) N {
	n := len(ascending)
	if n == 0 {
		return 0
	}
	return (ascending[(n-1)/2] + ascending[n/2]) / 2
}
