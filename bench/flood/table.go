package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// table is the cells of results, in the order in which contenders and floods came first.
type table struct{ cells []*Result }

// newTable adds up the results of each contender on each flood. A contender's cells stand together.
func newTable(results []Result) *table {
	t, order := new(table), map[string]int{}
	for _, r := range results {
		if _, again := order[r.Contender]; !again {
			order[r.Contender] = len(order)
		}
		t.cellOf(r.Contender, r.Flood).add(r)
	}
	slices.SortStableFunc(t.cells, func(a, b *Result) int { return order[a.Contender] - order[b.Contender] })
	return t
}

// cellOf returns a cell, which is added if there is none.
func (t *table) cellOf(contender, flood string) *Result {
	if r := t.find(contender, flood); r != nil {
		return r
	}
	r := newTally().result
	r.Contender, r.Flood, r.Work = contender, flood, map[string]time.Duration{}
	t.cells = append(t.cells, &r)
	return &r
}

// find returns a cell, nil if there is none.
func (t *table) find(contender, flood string) *Result {
	i := slices.IndexFunc(t.cells, func(r *Result) bool { return r.Contender == contender && r.Flood == flood })
	if i < 0 {
		return nil
	}
	return t.cells[i]
}

// add adds a run.
func (r *Result) add(run Result) {
	r.Runs += run.Runs
	r.Void += run.Void
	if run.Void > 0 {
		return
	}
	r.Load, r.Memory = max(r.Load, run.Load), max(r.Memory, run.Memory)
	for k, g := range run.People {
		r.People[k] = r.People[k].plus(g)
	}
	for name, c := range run.Programs {
		r.Programs[name] = r.Programs[name].plus(c)
	}
	for class, w := range run.Work {
		r.Work[class] += w
	}
	r.Bots = r.Bots.plus(run.Bots)
	r.Seconds += run.Seconds
	r.CPU += run.CPU
}

// columns are those of the table.
var columns = []struct {
	title string
	cell  func(r *Result) string
}{
	{"contender", func(r *Result) string { return r.Contender }},
	{"flood", func(r *Result) string { return r.Flood }},
	{"runs", func(r *Result) string {
		if r.Void > 0 {
			return fmt.Sprintf("%d, %d void", r.Runs, r.Void)
		}
		return strconv.Itoa(r.Runs)
	}},
	{"visits", func(r *Result) string { return strconv.Itoa(r.everyone().Visits.All) }},
	{"pages within 3 s", func(r *Result) string { return r.everyone().Pages.String() }},
	{"visits finished", func(r *Result) string { return r.everyone().Visits.String() }},
	{"search engine", func(r *Result) string { return r.Programs[searchEngine].String() }},
	{"feed readers", func(r *Result) string { return r.Programs[feedReaders].String() }},
	{"monitor", func(r *Result) string { return r.Programs[monitor].String() }},
	{"API client", func(r *Result) string { return r.Programs[apiClient].String() }},
	{"work to people", func(r *Result) string { return r.toPeople().String() }},
	{"within 1 s", func(r *Result) string { return r.everyone().Fast.String() }},
	{"pages that wait", func(r *Result) string { return r.waits() }},
	{"refusals", func(r *Result) string { return r.refusals() }},
	{"known", func(r *Result) string { return r.group(known) }},
	{"no cookies", func(r *Result) string { return r.group(noCookies) }},
	{"text browsers", func(r *Result) string { return r.group(textBrowser) }},
	{"slow lines", func(r *Result) string { return r.group(slowLine) }},
	{"bots' pages/s", func(r *Result) string { return each(float64(r.Bots.Good), r.Seconds, "%.1f") }},
	{"Caddy, % of a core", func(r *Result) string { return each(100*r.CPU.Seconds(), r.Seconds, "%.0f") }},
	{"Caddy, MB", func(r *Result) string { return strconv.FormatInt(r.Memory>>20, 10) }},
	{"load", func(r *Result) string { return fmt.Sprintf("%.1f", r.Load) }},
}

// group is a cell of some people: pages within 3 s, visits finished, and how many visits.
func (r *Result) group(k kind) string {
	g := r.People[k]
	return fmt.Sprintf("%s/%s of %d", g.Pages, g.Visits, g.Visits.All)
}

// waits is how many pages waited on a hundred clicks.
func (r *Result) waits() string {
	all := r.everyone()
	return each(100*float64(all.Waited), float64(all.Late.All), "%.0f")
}

// refusals is how many answers that were no page came on a hundred clicks.
func (r *Result) refusals() string {
	all := r.everyone()
	return each(100*float64(all.Refused), float64(all.Late.All), "%.0f")
}

func each(n, of float64, format string) string {
	if of == 0 {
		return "–"
	}
	return fmt.Sprintf(format, n/of)
}

// write writes a table in Markdown, and returns an error if a contender misses what is expected of it.
func write(w io.Writer, results []Result) error {
	t := newTable(results)
	var text, lines strings.Builder
	for _, c := range columns {
		fmt.Fprintf(&text, "| %s ", c.title)
		lines.WriteString("|---")
	}
	fmt.Fprintf(&text, "| verdict |\n%s|---|\n", &lines)
	missed := 0
	for _, r := range t.cells {
		for _, c := range columns {
			fmt.Fprintf(&text, "| %s ", c.cell(r))
		}
		verdict, misses := t.verdict(r)
		missed += misses
		fmt.Fprintf(&text, "| %s |\n", verdict)
	}
	text.WriteString("\nPercent. Groups of people: pages within 3 s / visits finished. " +
		"Pages that wait and refusals are of a hundred clicks.\n")
	if _, err := io.WriteString(w, text.String()); err != nil {
		return err
	}
	if missed > 0 {
		return fmt.Errorf("%d bars were missed", missed)
	}
	return nil
}
