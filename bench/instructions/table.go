package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
)

// tolerance is how far two counts of one number may lie apart.
const tolerance = 0.02

// spread returns how far the two counts lie apart, as a part of the smaller one.
func (t twice) spread() float64 { return math.Abs(t[0]-t[1]) / min(t[0], t[1]) }

// means returns the numbers of the base commit and of the working tree.
func (l line) means() (base, now float64) { return l.counts[0].mean(), l.counts[1].mean() }

// over returns what a row takes more than another, in the base commit and in the working tree.
func (l line) over(other line) (base, now float64) {
	base, now = l.means()
	otherBase, otherNow := other.means()
	return base - otherBase, now - otherNow
}

// ratio returns the working tree's number by the base commit's.
func ratio(base, now float64) string { return fmt.Sprintf("%.3f", now/base) }

// note says where two counts differ by more than they may.
func (l line) note() string {
	var notes []string
	for i, of := range [2]string{"base", "this"} {
		if spread := l.counts[i].spread(); spread > tolerance {
			notes = append(notes, fmt.Sprintf("two counts of %s differ by %.1f %%", of, 100*spread))
		}
	}
	return strings.Join(notes, ", ")
}

// report shows a row as soon as it is measured.
func (l line) report() {
	if l.err != nil {
		progress("%-28s %v", l.name, l.err)
		return
	}
	progress("%-28s base %8.0f %8.0f  this %8.0f %8.0f", l.name, l.counts[0][0], l.counts[0][1], l.counts[1][0], l.counts[1][1])
}

// write writes the table. The rows of Caddy also have what a request takes more than that of a plain Caddy.
func write(w io.Writer, lines []line, builds [2]build) error {
	var text strings.Builder
	t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(format string, args ...any) { _, _ = fmt.Fprintf(t, format, args...) } // text takes all
	row("instructions of a request\tbase %s\tthis %s\tratio\t  over plain Caddy\t\tratio\t\n", builds[0].name, builds[1].name)
	var bare *line
	for i, l := range lines {
		if l.name == plain && l.err == nil {
			bare = &lines[i]
		}
	}
	for _, l := range lines {
		row("%s\t%s\t\n", l.name, l.cells(bare))
	}
	_ = t.Flush() // as above
	_, err := io.WriteString(w, text.String())
	return err
}

// cells returns the numbers of a row.
func (l line) cells(bare *line) string {
	if l.err != nil {
		return "not measured"
	}
	base, now := l.means()
	cells := fmt.Sprintf("%.0f\t%.0f\t%s", base, now, ratio(base, now))
	if bare != nil && strings.HasPrefix(l.name, "caddy/") && l.name != plain {
		base, now = l.over(*bare)
		cells += fmt.Sprintf("\t+%.0f\t+%.0f\t%s", base, now, ratio(base, now))
	}
	if note := l.note(); note != "" {
		cells += "\t" + note
	}
	return cells
}
