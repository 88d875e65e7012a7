package terminal

import (
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/escape"
)

// Column is a table's column. By default its cells stand to the left and on one line.
type Column struct {
	Title string
	Right bool // cells stand to the right, as numbers do
	Words bool // long texts continue below, between words; for the last column only
	Open  bool // long texts run over the edge of a terminal; for the last column only
}

// Table is rows of texts under the columns' titles. Columns without a text in any row are left out.
// Nothing is cut, because a key that was shortened cannot be copied. A table that is too wide for a
// terminal is written as key-value lines, row by row.
type Table struct {
	Columns []Column
	Indent  string // before each line

	rows [][]string
}

// Add adds a row, in a form that is safe on a terminal. A row whose first text is empty continues the row
// before.
func (t *Table) Add(cells ...string) {
	for i := range cells {
		cells[i] = escape.Text(cells[i])
	}
	t.rows = append(t.rows, cells)
}

// gap stands between two columns.
const gap = "  "

// leastWords is how many characters a column of words takes at least, where it has longer texts: in a
// narrower one they are hard to read.
const leastWords = 20

// Write writes the table.
func (t *Table) Write(w Writer) {
	t.dropEmpty()
	most := 0
	if w.IsTerminal() {
		most = max(1, w.Width-len(t.Indent))
	}
	widths, fits := t.widths(most)
	if !fits {
		t.writeKeyValues(w)
		return
	}
	head := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		head[i] = c.Title
	}
	w.Print(t.Indent + w.paint(t.line(head, widths, Writer{}), bold) + "\n")
	for _, row := range t.rows {
		for _, cells := range t.wrapped(row, widths) {
			w.Print(t.Indent + t.line(cells, widths, w) + "\n")
		}
	}
}

// writeKeyValues writes the table row by row, a cell a line.
func (t *Table) writeKeyValues(w Writer) {
	for n, row := range t.rows {
		if n > 0 && row[0] != "" {
			w.Print("\n")
		}
		pairs := make(KeyValues, len(t.Columns))
		for i, c := range t.Columns {
			pairs[i] = keyValue{strings.ToLower(c.Title), row[i], c.Words}
		}
		pairs.write(w, t.Indent)
	}
}

// dropEmpty removes the columns without a text.
func (t *Table) dropEmpty() {
	for i := len(t.Columns) - 1; i >= 0 && len(t.rows) > 0; i-- {
		filled := false
		for _, row := range t.rows {
			filled = filled || row[i] != ""
		}
		if filled {
			continue
		}
		t.Columns = append(t.Columns[:i:i], t.Columns[i+1:]...)
		for j, row := range t.rows {
			t.rows[j] = append(row[:i:i], row[i+1:]...)
		}
	}
}

// widths returns the width of each column, and whether all fit into most characters; with 0
// everything fits. The last column may take less than its texts: one of words [leastWords] or the longest
// word, an open one half of the terminal.
func (t *Table) widths(most int) (widths []int, fits bool) {
	widths, total := make([]int, len(t.Columns)), len(gap)*(len(t.Columns)-1)
	last, word := len(t.Columns)-1, 0
	for i, c := range t.Columns {
		widths[i] = widthOf(c.Title)
		for _, row := range t.rows {
			widths[i] = max(widths[i], widthOf(row[i]))
			if i == last {
				word = max(word, longestWord(row[i]))
			}
		}
		total += widths[i]
	}
	if most == 0 || total <= most {
		return widths, true
	}
	left := most - (total - widths[last])
	switch {
	case t.Columns[last].Words:
		fits = left >= max(word, min(leastWords, widths[last]))
	case t.Columns[last].Open:
		fits = left >= most/2
	}
	widths[last] = left
	return widths, fits
}

// line lays cells out. The last one is not padded.
func (t *Table) line(cells []string, widths []int, w Writer) string {
	var line strings.Builder
	for i, text := range cells {
		padding := strings.Repeat(" ", max(0, widths[i]-widthOf(text)))
		text = w.PaintWord(text)
		if t.Columns[i].Right {
			text, padding = padding+text, ""
		}
		line.WriteString(text + padding + gap)
	}
	return strings.TrimRight(line.String(), " ")
}

// wrapped returns a row as the lines that it takes.
func (t *Table) wrapped(row []string, widths []int) [][]string {
	last := len(row) - 1
	if !t.Columns[last].Words {
		return [][]string{row}
	}
	var lines [][]string
	for _, words := range wrapWords(row[last], widths[last]) {
		line := make([]string, len(row))
		if len(lines) == 0 {
			copy(line, row)
		}
		line[last] = words
		lines = append(lines, line)
	}
	return lines
}
