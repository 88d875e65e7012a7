package report

import (
	"fmt"
	"strings"
	"time"
)

// Target bounds a row's numbers. Fields that are 0 bound nothing.
type Target struct {
	Added    time.Duration // most processor time that the web server takes more than in the compared row
	StoreCPU time.Duration // most processor time of Redis
	AtLeast  float64       // of the ratio
	AtMost   float64       // of the ratio
	Within   time.Duration // of the latency itself
}

// goal is one bound of a target.
type goal struct {
	text string
	met  bool
}

// goals compares a row's numbers with its target, as the table shows them: rounded.
func (r *Row) goals() []goal {
	var goals []goal
	add := func(met bool, format string, args ...any) {
		goals = append(goals, goal{fmt.Sprintf(format, args...), met})
	}
	if t := r.Target.Added; t > 0 {
		add(median(r.Added()).Round(tenth) <= t, "<= %s µs", micros(t))
	}
	if t := r.Target.StoreCPU; t > 0 {
		add(median(r.StoreCPU()).Round(tenth) <= t, "Redis <= %s µs", micros(t))
	}
	ratio := float64(int64(r.Ratio()*100+0.5)) / 100
	if t := r.Target.AtLeast; t > 0 {
		add(ratio >= t, ">= %.2f", t)
	}
	if t := r.Target.AtMost; t > 0 {
		add(ratio <= t, "<= %.2f", t)
	}
	if t := r.Target.Within; t > 0 {
		add(r.Measure.value(r.Median()) <= t.Seconds(), "<= %d ms", t.Milliseconds())
	}
	return goals
}

// tenth is the precision of processor times in the table.
const tenth = 100 * time.Nanosecond

// Targets returns each bound of the row and whether it was met, for the page.
func (r *Row) Targets() string {
	if r.Wrong() > 0 {
		return "invalid"
	}
	var texts []string
	for _, g := range r.goals() {
		text := g.text
		switch {
		case len(r.Samples) == 0:
		case g.met:
			text += " met"
		default:
			text += " missed"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}
