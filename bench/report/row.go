// Package report writes measurements of several rounds as a page and a chart.
package report

import "time"

// Sample is the measurement of one row in one round. Processor times are microseconds for a request.
type Sample struct {
	Round        int
	CPU          float64       // of the web server
	StoreCPU     float64       // of Redis
	Instructions float64       // of the web server for a request; 0: not counted
	Rate         float64       // requests a second
	P50          time.Duration // latency
	Resident     int64         // bytes of memory of the web server
	Wrong        float64       // the fraction of requests with a wrong status
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
	Base    *Row // the row of the comparison
	Single  *Row // the row with one policy where this one has several; nil: not compared
	Alone   bool // runs beside the web server: the base's processor time is not part of its own
	Ours    bool // measures this repository's handler, for the chart
	Check   bool // is the base in another process, which checks the measure
	NoBar   bool // is not in the chart
	Long    bool // has a bar that may be longer than the chart, and is cut then
	Samples []Sample
}

// Added returns the web server's processor time for a request over that of the base: the median of the
// differences of the rounds that have measured both.
func (r *Row) Added() Estimate {
	if r.Base == r {
		return Estimate{}
	}
	base := r.Base.byRound(func(s Sample) float64 { return s.CPU })
	var added []float64
	for _, s := range r.Samples {
		if r.Alone {
			added = append(added, s.CPU)
		} else if cpu, paired := base[s.Round]; paired {
			added = append(added, s.CPU-cpu)
		}
	}
	return estimate(added)
}

// byRound returns a number of each sample, by the sample's round.
func (r *Row) byRound(of func(Sample) float64) map[int]float64 {
	numbers := map[int]float64{}
	for _, s := range r.Samples {
		numbers[s.Round] = of(s)
	}
	return numbers
}

// Store returns Redis's processor time for a request, nothing without a Redis.
func (r *Row) Store() Estimate {
	var times []float64
	for _, s := range r.Samples {
		if s.StoreCPU > 0 {
			times = append(times, s.StoreCPU)
		}
	}
	return estimate(times)
}

// StoreRatio returns Redis's processor time for a request by that of the row with one policy: the median of the ratios of
// the rounds that have measured both.
func (r *Row) StoreRatio() Estimate {
	if r.Single == nil {
		return Estimate{}
	}
	single := r.Single.byRound(func(s Sample) float64 { return s.StoreCPU })
	var ratios []float64
	for _, s := range r.Samples {
		if single[s.Round] > 0 {
			ratios = append(ratios, s.StoreCPU/single[s.Round])
		}
	}
	return estimate(ratios)
}

// Settled reports whether the row needs no more rounds.
func (r *Row) Settled() bool {
	store := r.Store()
	return r.Base == r || r.Added().Separable() && (store.rounds == 0 || store.Separable())
}

// Median returns a sample of medians: each number is the median of the rounds.
func (r *Row) Median() Sample {
	return Sample{
		CPU:          medianOf(r, func(s Sample) float64 { return s.CPU }),
		StoreCPU:     r.Store().Median,
		Instructions: medianOf(r, func(s Sample) float64 { return s.Instructions }),
		Rate:         medianOf(r, func(s Sample) float64 { return s.Rate }),
		P50:          medianOf(r, func(s Sample) time.Duration { return s.P50 }),
		Resident:     medianOf(r, func(s Sample) int64 { return s.Resident }),
	}
}

func medianOf[N ~int64 | ~float64](r *Row, of func(Sample) N) N {
	var numbers []N
	for _, s := range r.Samples {
		numbers = append(numbers, of(s))
	}
	return median(numbers)
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
