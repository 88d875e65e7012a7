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

Written by ` + "`make bench`" + ` from one run; do not edit. Load generator, Caddy and Redis share one
machine. Every row is measured for some seconds in each round, one after another. **CPU added** is
the web server's processor time for a request over that of the first row of its table, **CPU, Redis**
that of Redis. Processor time is the main figure, because other work on the machine moves it less than
throughput. A number is the median over the rounds, a difference or a ratio the median of the rounds' own,
with the quartiles behind it.

{{if .Chart}}![Processor time for a request over the first row of each table, in microseconds]({{.Chart}})

{{end}}| | |
|---|---|
{{range .Facts}}| {{index . 0}} | {{index . 1}} |
{{end}}{{range .Groups}}
## {{.Title}}
{{if .Note}}
{{.Note}}
{{end}}
| | CPU added µs | CPU, Redis µs | CPU, web server µs | req/s | p50 ms | p99 ms | memory MB | ratio | target |
|---|--:|--:|--:|--:|--:|--:|--:|--:|---|
{{range .Rows}}{{$m := .Median}}| {{.Title}} | {{added .}}{{addedSpread .}} | {{micros $m.StoreCPU}}{{storeSpread .}} | {{micros $m.CPU}} | {{thousands $m.Rate}} | {{millis $m.P50}} | {{millis $m.P99}} | {{megabytes $m.Resident}} | {{ratio .}}{{ratioSpread .}} | {{.Targets}} |
{{end}}{{end}}
A ratio is that of throughput, or of the latency that a table's title names. Memory is what the web
server has in use afterwards.
{{range .Notes}}
{{.}}
{{end}}`

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"thousands": thousands, "millis": millis, "micros": micros, "megabytes": megabytes, "ratio": ratio, "added": added,
	"addedSpread": addedSpread, "storeSpread": storeSpread, "ratioSpread": ratioSpread,
}).Parse(page))

// WritePage writes the page in Markdown.
func WritePage(w io.Writer, p Page) error { return pageTemplate.Execute(w, p) }

func addedSpread(r *Row) string {
	if !r.hasAdded() {
		return ""
	}
	return spread(r.Added(), tenths)
}

func storeSpread(r *Row) string {
	if r.Measure != CPU || median(r.StoreCPU()) == 0 {
		return ""
	}
	return spread(r.StoreCPU(), tenths)
}

func ratioSpread(r *Row) string {
	if r.Against == r {
		return ""
	}
	return spread(r.Ratios(), func(n float64) string { return fmt.Sprintf("%.2f", n) })
}
