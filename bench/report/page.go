package report

import (
	"io"
	"strings"
	"text/template"
)

// Page is the content of docs/benchmarks.md.
type Page struct {
	Facts  [][2]string // the machine, versions, date, command
	Groups []*Group
	Notes  []string // errors and omissions
	Chart  string   // the chart's file

	Instructions string // the part that make instructions wrote, which the page keeps; may be empty
}

const page = `# Benchmarks

Written by ` + "`make bench`" + ` from one run; do not edit. Load generator, Caddy and Redis share one machine. In each round all rows take turns in random order. Servers start anew after ten rounds.

- **Caddy added** is its processor time for a request over that of the table's first row in the same round: the median of the differences, and its 95 % interval by the percentile bootstrap.
- A row is measured until its intervals are below 1 µs or time is up. A wider one is "not separable".
{{with .Check}}- **Check**: {{.}}
{{end}}
{{if .Chart}}![Processor time for a request over bare Caddy, in microseconds]({{.Chart}})

{{end}}{{range .Facts}}- {{index . 0}}: {{index . 1}}
{{end}}{{range .Groups}}
## {{.Title}}

{{.Note}}

||Caddy added µs|Redis µs|{{if $.Counted}}instructions|{{end}}req/s|p50 ms|MB|
|---|--:|--:|{{if $.Counted}}--:|{{end}}--:|--:|--:|
{{range .Rows}}{{if not .Check}}{{$m := .Median}}|{{.Title}}|{{.Added}}|{{.Store}}|{{if $.Counted}}{{thousands $m.Instructions}}|{{end}}{{thousands $m.Rate}}|{{millis $m.P50}}|{{megabytes $m.Resident}}|
{{end}}{{end}}{{with .Ratios}}
{{.}}
{{end}}{{end}}{{range .Notes}}
{{.}}
{{end}}{{with .Instructions}}
{{.}}{{end}}`

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"thousands": Thousands, "millis": millis, "megabytes": Megabytes,
}).Parse(page))

// WritePage writes the page in Markdown.
func WritePage(w io.Writer, p Page) error { return pageTemplate.Execute(w, p) }

// Counted reports whether the kernel has counted instructions.
func (p Page) Counted() bool {
	for _, g := range p.Groups {
		for _, r := range g.Rows {
			if r.Median().Instructions > 0 {
				return true
			}
		}
	}
	return false
}

// Check says what the rows have shown that measure the same server twice.
func (p Page) Check() string {
	var found []string
	for _, g := range p.Groups {
		for _, r := range g.Rows {
			if !r.Check {
				continue
			}
			added := r.Added()
			text := "a second process of the same Caddy adds " + added.String() + " µs"
			if !added.holdsZero() {
				text += ", and should add 0: the run does not hold"
			}
			found = append(found, text+".")
		}
	}
	return strings.Join(found, " ")
}
