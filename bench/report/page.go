package report

import (
	"fmt"
	"io"
	"text/template"
)

// Page is the content of docs/benchmarks.md.
type Page struct {
	Facts  [][2]string // the machine, versions, date, command
	Groups []*Group
	Notes  []string // errors and omissions
	Chart  string   // the chart's file
}

const page = `# Benchmarks

Written by ` + "`make bench`" + ` from one run; do not edit. Load generator, Caddy and Redis share one machine. Rows
are measured in turn, on 64 connections. **CPU added** is the web server's processor time for a request over that of
its table's first row: the median of the rounds' differences, and its quartiles. Where these lie far apart, it is noise.
MB are the memory that the web server has in use.

{{if .Chart}}![Processor time for a request over the first row of each table, in microseconds]({{.Chart}})

{{end}}{{range .Facts}}- {{index . 0}}: {{index . 1}}
{{end}}{{range .Groups}}
## {{.Title}}

{{.Note}}

| | CPU added µs | Redis µs | req/s | p99 ms | MB |
|---|--:|--:|--:|--:|--:|
{{range .Rows}}{{$m := .Median}}| {{.Title}} | {{added .}} | {{micros $m.StoreCPU}} | {{thousands $m.Rate}} | {{millis $m.P99}} | {{megabytes $m.Resident}} |
{{end}}{{end}}{{range .Notes}}
{{.}}
{{end}}`

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"thousands": thousands, "millis": millis, "micros": micros, "megabytes": megabytes,
	"added": func(r *Row) string { return added(r) + addedSpread(r) },
}).Parse(page))

// WritePage writes the page in Markdown.
func WritePage(w io.Writer, p Page) error { return pageTemplate.Execute(w, p) }

// addedSpread writes the quartiles behind a median, where there are several rounds.
func addedSpread(r *Row) string {
	if !r.hasAdded() || len(r.Samples) < 2 {
		return ""
	}
	first, third := quartiles(r.Added())
	return fmt.Sprintf(" (%s–%s)", tenths(first), tenths(third))
}
