package report

import (
	"fmt"
	"strconv"
	"time"
)

// Notes returns a sentence for each row with wrong responses.
func Notes(groups []*Group) []string {
	var notes []string
	for _, g := range groups {
		for _, r := range g.Rows {
			if wrong := r.Wrong(); wrong > 0 {
				notes = append(notes, fmt.Sprintf("%s, %s: in a round %.1f %% of the requests got no response or a wrong status.",
					g.Title, r.Title, wrong*100))
			}
		}
	}
	return notes
}

// thousands writes a rate with a comma before the last three digits.
func thousands(rate float64) string {
	whole := int64(rate + 0.5)
	if whole < 1000 {
		return strconv.FormatInt(whole, 10)
	}
	return fmt.Sprintf("%d,%03d", whole/1000, whole%1000)
}

// millis writes a latency in milliseconds with three digits.
func millis(d time.Duration) string {
	ms := d.Seconds() * 1000
	switch {
	case ms < 10:
		return fmt.Sprintf("%.2f", ms)
	case ms < 100:
		return fmt.Sprintf("%.1f", ms)
	}
	return fmt.Sprintf("%.0f", ms)
}

// micros writes a processor time in microseconds, and nothing for 0.
func micros(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return tenths(d)
}

func tenths(d time.Duration) string { return fmt.Sprintf("%.1f", d.Seconds()*1e6) }

func megabytes(bytes int64) string { return strconv.FormatInt(bytes/1e6, 10) }

// hasAdded reports whether the row was measured and is compared with another one.
func (r *Row) hasAdded() bool { return r.Against != r && len(r.Samples) > 0 }

// added writes the web server's processor time over that of the compared row.
func added(r *Row) string {
	if !r.hasAdded() {
		return ""
	}
	return tenths(median(r.Added()))
}
