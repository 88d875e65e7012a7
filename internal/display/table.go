package display

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// Column is a table's column. By default its cells stand to the left.
type Column struct {
	Title string
	Right bool // cells stand to the right, as numbers do
}

// Table is rows of texts under the columns' titles. Columns without a text in any row are left out.
// Nothing is cut, because a key that was shortened cannot be copied.
type Table struct {
	Columns []Column
	Indent  string // before each line

	rows [][]string
}

// Add adds a row, in a form that is safe on a terminal.
func (t *Table) Add(cells ...string) {
	for i := range cells {
		cells[i] = Escape(cells[i])
	}
	t.rows = append(t.rows, cells)
}

// Write writes the table, a row a line.
func (t *Table) Write(w Writer) {
	head, widths := make([]string, len(t.Columns)), make([]int, len(t.Columns))
	for i, c := range t.Columns {
		for _, row := range t.rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
		if head[i] = c.Title; widths[i] > 0 {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.Title))
		}
	}
	w.Print(t.line(head, widths) + "\n")
	for _, row := range t.rows {
		w.Print(t.line(row, widths) + "\n")
	}
}

// line lays cells out. The last one is not padded.
func (t *Table) line(cells []string, widths []int) string {
	var shown []string
	for i, text := range cells {
		if widths[i] == 0 {
			continue
		}
		padding := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
		if t.Columns[i].Right {
			text, padding = padding+text, ""
		}
		shown = append(shown, text+padding)
	}
	return t.Indent + strings.TrimRight(strings.Join(shown, "  "), " ")
}

// KeyValues are values with their names, in a line each.
type KeyValues struct{ names, values []string }

// Add adds a value with its name, in a form that is safe on a terminal. Without a value there is no line.
func (k *KeyValues) Add(name, value string) {
	if value != "" {
		k.names, k.values = append(k.names, name), append(k.values, Escape(value))
	}
}

// Write writes the values, aligned.
func (k KeyValues) Write(w Writer) {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i, name := range k.names {
		_, _ = fmt.Fprintf(columns, "%s\t%s\n", name, k.values[i]) // w keeps the error
	}
	_ = columns.Flush()
}
