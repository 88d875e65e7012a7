package command

import "strings"

// column is a table's column. Unless it says otherwise its cells stand to the left and in one line.
type column struct {
	title string
	right bool // for numbers
	words bool // long texts go on below, between words; for the last column only
	open  bool // long texts run over the edge of a terminal; for the last column only
}

// textTable is rows of texts under the columns' titles. Columns in which no row has a text are left out.
// Nothing is ever cut, because it may be what somebody wants to copy: a table that is too wide for a
// terminal is written as facts, row by row.
type textTable struct {
	columns []column
	rows    [][]string
}

// add adds a row. Its texts may be what clients chose. One whose first text is empty tells more of the
// row before.
func (t *textTable) add(cells ...string) {
	for i := range cells {
		cells[i] = printable(cells[i])
	}
	t.rows = append(t.rows, cells)
}

// gap stands between two columns.
const gap = "  "

// write writes the table.
func (t *textTable) write(s terminal) {
	t.dropEmpty()
	widths, fits := t.widths(s.width)
	if !fits {
		t.writeKeyValues(s)
		return
	}
	head := make([]string, len(t.columns))
	for i, c := range t.columns {
		head[i] = c.title
	}
	s.print(s.paint(t.line(head, widths, terminal{}), bold) + "\n")
	for _, row := range t.rows {
		for _, part := range t.wrapped(row, widths) {
			s.print(t.line(part, widths, s) + "\n")
		}
	}
}

// writeKeyValues writes the table row by row, each as the facts that it has.
func (t *textTable) writeKeyValues(s terminal) {
	for n, row := range t.rows {
		if n > 0 && row[0] != "" {
			s.print("\n")
		}
		list := make(keyValues, len(t.columns))
		for i, c := range t.columns {
			list[i] = keyValue{strings.ToLower(c.title), row[i], c.words}
		}
		list.write(s)
	}
}

// dropEmpty removes the columns that tell nothing.
func (t *textTable) dropEmpty() {
	for i := len(t.columns) - 1; i >= 0 && len(t.rows) > 0; i-- {
		told := false
		for _, row := range t.rows {
			told = told || row[i] != ""
		}
		if told {
			continue
		}
		t.columns = append(t.columns[:i:i], t.columns[i+1:]...)
		for j, row := range t.rows {
			t.rows[j] = append(row[:i:i], row[i+1:]...)
		}
	}
}

// widths is how wide each column is to be, and whether all fit into the width of a terminal. The last
// column may take less than its texts: words the longest of them, an open one half of the terminal.
func (t *textTable) widths(most int) (widths []int, fits bool) {
	widths, total := make([]int, len(t.columns)), len(gap)*(len(t.columns)-1)
	last, word := len(t.columns)-1, 0
	for i, c := range t.columns {
		widths[i] = widthOf(c.title)
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
	case t.columns[last].words:
		fits = left >= word
	case t.columns[last].open:
		fits = left >= most/2
	}
	widths[last] = left
	return widths, fits
}

// line lays cells out. The last one is not padded.
func (t *textTable) line(cells []string, widths []int, s terminal) string {
	var line strings.Builder
	for i, text := range cells {
		padding := strings.Repeat(" ", max(0, widths[i]-widthOf(text)))
		text = s.paintWord(text)
		if t.columns[i].right {
			text, padding = padding+text, ""
		}
		line.WriteString(text + padding + gap)
	}
	return strings.TrimRight(line.String(), " ")
}

// wrapped is a row as the lines that it takes.
func (t *textTable) wrapped(row []string, widths []int) [][]string {
	last := len(row) - 1
	if !t.columns[last].words {
		return [][]string{row}
	}
	var lines [][]string
	for _, part := range wrapWords(row[last], widths[last]) {
		line := make([]string, len(row))
		if len(lines) == 0 {
			copy(line, row)
		}
		line[last] = part
		lines = append(lines, line)
	}
	return lines
}
