package command

import (
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// screen is where a command writes to. On a terminal its tables have colors and are made to fit; in a
// pipe or a file every text is whole, plain and on one line, so that scripts can read it.
type screen struct {
	out           io.Writer
	width, height int // of the terminal; 0: there is none
	colored       bool
}

func newScreen(out io.Writer) screen {
	s := screen{out: out}
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return s
	}
	s.width, s.height = 80, 24 // of one that does not tell
	if width, height, err := term.GetSize(int(file.Fd())); err == nil && width > 0 && height > 0 {
		s.width, s.height = width, height
	}
	s.colored = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return s
}

func (s screen) isTerminal() bool { return s.width > 0 }

// print writes a text without waiting for whether somebody reads it: a closed pipe is no failure of the
// command's.
func (s screen) print(text string) { _, _ = io.WriteString(s.out, text) }

// The colors of a terminal. Bold heads stand out on a light and on a dark one.
const (
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	plain  = "\x1b[0m"
)

// tones are the words that have a color of their own, where they begin a cell.
var tones = map[string]string{
	"ok": green, "allowed": green, "exempt": green, "warning": yellow, "failed": red, "denied": red, "rejected": red,
}

func (s screen) paint(text, color string) string {
	if !s.colored || color == "" {
		return text
	}
	return color + text + plain
}

// paintWord gives a text that begins with one of the tones its color.
func (s screen) paintWord(text string) string {
	word, _, _ := strings.Cut(text, " ")
	return s.paint(text, tones[word])
}

// column is a table's column. Unless it says otherwise its cells stand to the left and are never cut.
type column struct {
	title  string
	right  bool // for numbers
	shrink bool // long texts lose their middle on a terminal that is too narrow
	wrap   bool // long texts go on below; for the last column only
}

// textTable is rows of texts, under the columns' titles where they have some. Columns in which no row
// has a text are left out.
type textTable struct {
	columns []column
	rows    [][]string
}

// add adds a row. Its texts may be what clients chose.
func (t *textTable) add(cells ...string) {
	for i := range cells {
		cells[i] = printable(cells[i])
	}
	t.rows = append(t.rows, cells)
}

// gap stands between two columns.
const gap = "  "

// leastWidth is how narrow a column may be made.
const leastWidth = 16

// write writes the table.
func (t *textTable) write(s screen) {
	t.dropEmpty()
	widths := t.widths(s.width)
	head := make([]string, len(t.columns))
	for i, c := range t.columns {
		head[i] = c.title
	}
	if line := t.line(head, widths, screen{}); line != "" {
		s.print(s.paint(line, bold) + "\n")
	}
	for _, row := range t.rows {
		for _, part := range t.wrapped(row, widths) {
			s.print(t.line(part, widths, s) + "\n")
		}
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

// widths is how wide each column is to be, so that all fit into the width of a terminal if they can.
func (t *textTable) widths(most int) []int {
	widths, total := make([]int, len(t.columns)), len(gap)*(len(t.columns)-1)
	for i, c := range t.columns {
		widths[i] = utf8.RuneCountInString(c.title)
		for _, row := range t.rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
		total += widths[i]
	}
	for ; most > 0 && total > most; total-- {
		widest := -1
		for i, c := range t.columns {
			if (c.shrink || c.wrap) && widths[i] > leastWidth && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return widths
}

// line lays cells out. The last one is not padded.
func (t *textTable) line(cells []string, widths []int, s screen) string {
	var line strings.Builder
	for i, text := range cells {
		if t.columns[i].shrink {
			text = shorten(text, widths[i])
		}
		padding := strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(text)))
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
	if !t.columns[last].wrap {
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

// wrapWords breaks a text between words into lines of that width. A word that is longer stays whole.
func wrapWords(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Split(text, " ") {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
