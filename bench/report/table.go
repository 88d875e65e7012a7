package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/template"
	"time"
)

// WriteTable prints the groups, in lines of 80 columns at most.
func WriteTable(w io.Writer, groups []*Group) error {
	var text strings.Builder
	for _, g := range groups {
		fmt.Fprintf(&text, "\n%-34s%8s%7s%7s  %5s  %s\n", g.Title, "req/s", "p50 ms", "p99 ms", "ratio", "target")
		for _, r := range g.Rows {
			m := r.Median()
			line := fmt.Sprintf("  %-32s%8s%7s%7s  %5s  %-7s %s", r.Title, thousands(m.Rate),
				millis(m.P50), millis(m.P99), ratio(r), r.Target, r.Verdict())
			text.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

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

// Page is the content of docs/benchmarks.md.
type Page struct {
	Facts  [][2]string // the machine, versions, date, command
	Groups []*Group
	Notes  []string // errors and omissions
	Chart  string   // the chart's file
}

const page = `# Benchmarks

Written by ` + "`make bench`" + ` from one run; do not edit. Load generator, Caddy and Redis share one
machine. Every row is measured for some seconds in each round, one after another; the numbers are
the medians over the rounds, and a ratio is the median of the rounds' ratios, with the smallest
and the largest of them behind it.

{{if .Chart}}![Throughput; the first bar of each group is 1.00]({{.Chart}})

{{end}}| | |
|---|---|
{{range .Facts}}| {{index . 0}} | {{index . 1}} |
{{end}}{{range .Groups}}
## {{.Title}}
{{if .Note}}
{{.Note}}
{{end}}
| | req/s | p50 ms | p99 ms | CPU µs, web server | CPU µs, Redis | memory MB | ratio | target |
|---|--:|--:|--:|--:|--:|--:|--:|---|
{{range .Rows}}{{$m := .Median}}| {{.Title}} | {{thousands $m.Rate}} | {{millis $m.P50}} | {{millis $m.P99}} | {{micros $m.CPU}} | {{micros $m.StoreCPU}} | {{megabytes $m.Resident}} | {{ratio .}}{{spread .}} | {{.Target}}{{with .Verdict}} {{.}}{{end}} |
{{end}}{{end}}
CPU is processor time per request, memory what the web server has in use afterwards.
{{range .Notes}}
{{.}}
{{end}}`

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"thousands": thousands, "millis": millis, "micros": micros, "megabytes": megabytes, "ratio": ratio, "spread": spread,
}).Parse(page))

// WritePage writes the page in Markdown.
func WritePage(w io.Writer, p Page) error { return pageTemplate.Execute(w, p) }

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

func micros(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", d.Seconds()*1e6)
}

func megabytes(bytes int64) string { return strconv.FormatInt(bytes/1e6, 10) }

func ratio(r *Row) string {
	if r.Against == nil {
		return ""
	}
	return fmt.Sprintf("%.2f", r.Ratio())
}

// spread writes the smallest and the largest ratio of the rounds.
func spread(r *Row) string {
	ratios := r.Ratios()
	if len(ratios) < 2 || r.Against == r {
		return ""
	}
	return fmt.Sprintf(" (%.2f–%.2f)", ratios[0], ratios[len(ratios)-1])
}
