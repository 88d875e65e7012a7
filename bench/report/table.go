package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Notes returns a sentence for each row with wrong responses.
func Notes(groups []*Group) []string {
	var notes []string
	for _, g := range groups {
		for _, r := range g.Rows {
			if wrong := r.Wrong(); wrong > 0 {
				notes = append(notes, fmt.Sprintf("%s, %s: in a round %.1f %% of the requests got a wrong status.",
					g.Title, r.Title, wrong*100))
			}
		}
	}
	return notes
}

// Ratios says what Redis takes for rows of several policies, "" without such a row.
func (g *Group) Ratios() string {
	var ratios []string
	for _, r := range g.Rows {
		if e := r.StoreRatio(); e.rounds > 0 {
			ratios = append(ratios, fmt.Sprintf("%s %.2f (%.2f–%.2f)", r.Title, e.Median, e.Low, e.High))
		}
	}
	if ratios == nil {
		return ""
	}
	return "Redis's processor time by that of one policy in the same round: " + strings.Join(ratios, ", ") + "."
}

// Thousands writes a number below a million, such as a rate, with a comma before the last three digits.
func Thousands(number float64) string {
	whole := int64(number + 0.5)
	if whole < 1000 {
		return strconv.FormatInt(whole, 10)
	}
	return fmt.Sprintf("%d,%03d", whole/1000, whole%1000)
}

// millis writes a latency in milliseconds.
func millis(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()*1000) }

func tenths(us float64) string { return strconv.FormatFloat(math.Round(us*10)/10+0, 'f', 1, 64) } // +0 takes the sign of -0

// Megabytes writes millions of bytes.
func Megabytes(bytes int64) string { return strconv.FormatInt(bytes/1e6, 10) }
