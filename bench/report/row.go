// Package report writes measurements of several rounds as a table, a page and a chart.
package report

import (
	"slices"
	"time"
)

// Sample is the measurement of one row in one round.
type Sample struct {
	Rate     float64       // requests a second
	P99      time.Duration // latency
	CPU      time.Duration // processor time of the web server for a request
	StoreCPU time.Duration // processor time of Redis for a request
	Resident int64         // bytes of memory of the web server
	Wrong    float64       // the fraction of requests without a response or with a wrong status
}

// tolerated is the fraction of responses that may be wrong. With more, the row is invalid.
const tolerated = 0.001

// Group holds rows under one heading.
type Group struct {
	Title string
	Note  string // for the page; may be empty
	Rows  []*Row
}

// Row is one line of the table.
type Row struct {
	Title   string
	Against *Row // the row of the comparison
	Alone   bool // runs beside the web server: the compared row's processor time is not part of its own
	Ours    bool // measures this repository's handler, for the chart
	Samples []Sample
}

// Added returns the web server's processor time for a request of the rounds, ascending: what it takes
// more than the compared row in the same round.
func (r *Row) Added() []time.Duration {
	var added []time.Duration
	for i := range min(len(r.Samples), len(r.Against.Samples)) {
		if r.Alone {
			added = append(added, r.Samples[i].CPU)
		} else {
			added = append(added, r.Samples[i].CPU-r.Against.Samples[i].CPU)
		}
	}
	slices.Sort(added)
	return added
}

// StoreCPU returns Redis's processor time for a request of the rounds, ascending.
func (r *Row) StoreCPU() []time.Duration {
	return ascending(r.Samples, func(s Sample) time.Duration { return s.StoreCPU })
}

// Median returns a sample of medians: each number is the median of the rounds.
func (r *Row) Median() Sample {
	return Sample{
		Rate:     medianOf(r.Samples, func(s Sample) float64 { return s.Rate }),
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
