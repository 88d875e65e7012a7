package main

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// head is the first line of the table, with the columns of a row.
const head = "| client | version | run on | refusals it got | exit | data | sent, refused | earliest return, told | reason shown " +
	"| verdict | note |"

// row is a line of the table.
type row struct {
	client, version, date string
	forms                 string // status and type of the refusals
	exit, data            string // data is "whole", or how much of it there is
	requests              string // "12, 3": sent in all, refused of them
	back                  string // "2.0 s, 2 s": the earliest return and what the client was told
	reason                string // "yes" if the client prints that a limit was the reason
	verdict, note         string
}

// whole stands in the column of data.
const whole = "whole"

// newRow returns what is written of a run.
func newRow(r *run, version, date string, o outcome, v visit) row {
	w := row{
		client: r.name, version: version, date: date, forms: strings.Join(v.forms, "; "), exit: strconv.Itoa(o.exit), data: o.data,
		requests: fmt.Sprintf("%d, %d", v.sent, v.refused), back: "–", reason: "no", verdict: judge(o, v), note: r.note,
	}
	if o.whole {
		w.data = whole
	}
	if !math.IsNaN(v.back) {
		w.back = fmt.Sprintf("%.1f s, %.4g s", v.back, v.told)
	}
	if showsReason(r.output.Bytes()) {
		w.reason = "yes"
	}
	return w
}

func (w row) String() string {
	return "| " + strings.Join([]string{
		w.client, w.version, w.date, w.forms, w.exit, w.data, w.requests, w.back, w.reason, w.verdict, w.note,
	}, " | ") + " |"
}

// parseRow parses a line of the table.
func parseRow(line string) (w row, err error) {
	cells := strings.Split(strings.Trim(line, "|"), "|")
	if len(cells) != 11 {
		return w, fmt.Errorf("the row has %d columns: %s", len(cells), line)
	}
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	w = row{cells[0], cells[1], cells[2], cells[3], cells[4], cells[5], cells[6], cells[7], cells[8], cells[9], cells[10]}
	if !slices.Contains(verdicts, w.verdict) {
		return w, fmt.Errorf("the row has the verdict %q: %s", w.verdict, line)
	}
	return w, nil
}

// refused returns how many requests were refused.
func (w row) refused() int {
	_, refused, _ := strings.Cut(w.requests, ", ")
	n, _ := strconv.Atoi(refused) // 0 for what is no number
	return n
}

// worse says how a client does worse than a row, or nothing.
func (w row) worse(before row) string {
	switch {
	case slices.Index(verdicts, w.verdict) > slices.Index(verdicts, before.verdict):
		return fmt.Sprintf("%s, before: %s", w.verdict, before.verdict)
	case before.data == whole && w.data != whole:
		return w.data + ", before: all"
	case before.reason == "yes" && w.reason != "yes" && w.verdict != waits:
		return "shows no reason any more"
	case w.refused() > 2*before.refused()+5:
		return fmt.Sprintf("%d requests refused, before: %d", w.refused(), before.refused())
	}
	return ""
}

// readTable reads the rows of a page, and what stands before and after the table.
func readTable(path string) (before string, rows []row, after string, err error) {
	page, err := os.ReadFile(path)
	if err != nil {
		return "", nil, "", err
	}
	before, rest, found := strings.Cut(string(page), head+"\n")
	if !found {
		return "", nil, "", fmt.Errorf("%s has no table: %s", path, head)
	}
	lines := strings.SplitAfter(rest, "\n")
	for i, line := range lines[1:] { // after the line of dashes
		if !strings.HasPrefix(line, "|") {
			return before, rows, strings.Join(lines[1+i:], ""), nil
		}
		w, err := parseRow(strings.TrimSpace(line))
		if err != nil {
			return "", nil, "", err
		}
		rows = append(rows, w)
	}
	return before, rows, "", nil
}

// writeTable writes the rows into a page, in the order of the list.
func writeTable(path, before string, rows []row, after string) error {
	var page strings.Builder
	page.WriteString(before + head + "\n" + strings.Repeat("|---", 11) + "|\n")
	for _, c := range list() {
		if i := slices.IndexFunc(rows, func(w row) bool { return w.client == c.name }); i >= 0 {
			page.WriteString(rows[i].String() + "\n")
		}
	}
	return os.WriteFile(path, []byte(page.String()+after), 0o600)
}
