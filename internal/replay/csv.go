package replay

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/escape"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
)

// decisionWriter writes a line of CSV for every request.
type decisionWriter struct {
	csv      *csv.Writer
	policies []PolicyResult
	row      []string
}

// decisionColumns are the titles of the columns. The policy is the one that denied, or else the first that the
// request met. A policy in a dry run is named only without any other.
var decisionColumns = []string{"line", "time", "client", "method", "host", "uri", "decision", "policy", "key", "retry_after"}

func newDecisionWriter(w io.Writer, policies []PolicyResult) *decisionWriter {
	d := &decisionWriter{csv: csv.NewWriter(w), policies: policies}
	_ = d.csv.Write(decisionColumns) // end returns its error
	return d
}

func (d *decisionWriter) write(e *accesslog.Entry, v *Verdict) {
	d.row = append(d.row[:0], e.Line.String(), time.UnixMicro(e.Time).UTC().Format("2006-01-02T15:04:05.000000Z"),
		e.Client, e.Method, e.Host, e.URI, string(v.Outcome), "", "", "")
	if binding := bindingOf(v); binding != nil {
		d.row[7], d.row[8] = d.policies[binding.Policy].Name, binding.Key
		if v.Outcome == Denied && binding.RetryAfter >= 0 {
			d.row[9] = strconv.FormatFloat(binding.RetryAfter.Seconds(), 'f', 6, 64)
		}
	}
	for i := range d.row {
		d.row[i] = harmless(d.row[i])
	}
	_ = d.csv.Write(d.row) // end returns its error
}

// end writes what is buffered.
func (d *decisionWriter) end() error {
	d.csv.Flush()
	if err := d.csv.Error(); err != nil {
		return fmt.Errorf("writing decisions: %w", err)
	}
	return nil
}

// bindingOf returns the decision that a line names.
func bindingOf(v *Verdict) *Decision {
	var binding *Decision
	for i := range v.Decisions {
		d := &v.Decisions[i]
		if binding == nil || rank(d) > rank(binding) {
			binding = d
		}
	}
	return binding
}

// rank orders decisions by their effect on the request.
func rank(d *Decision) int {
	switch {
	case d.DryRun:
		return 0
	case d.Denied:
		return 2
	}
	return 1
}

// harmless returns a cell that no spreadsheet reads as a formula, also with wide characters, and no terminal as
// a command. Tabs and line breaks, which a spreadsheet may skip before a formula, become escapes. A spreadsheet
// that separates cells by semicolons begins a cell after each of them, even within the quotes of CSV.
func harmless(cell string) string {
	cell = escape.Short(cell, maxCell)
	if !isFormula(cell) && !strings.Contains(cell, ";") {
		return cell
	}
	parts := strings.Split(cell, ";")
	for i, part := range parts {
		if isFormula(part) {
			parts[i] = "'" + part
		}
	}
	return strings.Join(parts, ";")
}

// isFormula reports whether a spreadsheet may read a text as a formula, after blanks and quotes that it may
// skip.
func isFormula(text string) bool {
	first, _ := utf8.DecodeRuneInString(strings.TrimLeftFunc(text, isSkipped))
	return strings.ContainsRune("=+-@＝＋－＠", first)
}

func isSkipped(r rune) bool { return r == '"' || unicode.IsSpace(r) }

// maxCell bounds the length of a cell, in characters.
const maxCell = 2000
