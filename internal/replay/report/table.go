package report

// reportTable is a table of the report. Its cells are text that the template escapes.
type reportTable struct {
	Caption string
	Note    string // how the table differs from its chart; may be empty
	Columns []reportColumn
	Rows    [][]string
}

// reportColumn is a column: its heading, and the class of its cells. The cells of the first column are the headings
// of the rows.
type reportColumn struct{ Name, Class string }

// The classes of columns. Numbers stand to the right, keys break anywhere, and instants nowhere.
const (
	numbers = "n"
	keys    = "k"
	words   = "w"
	times   = "t"
)

// reportCell is a cell with the properties of its column.
type reportCell struct {
	Text, Class string
	Heads       bool
}

// Cells returns the table's body, row by row.
func (t reportTable) Cells() [][]reportCell {
	rows := make([][]reportCell, len(t.Rows))
	for i, row := range t.Rows {
		for j, text := range row {
			rows[i] = append(rows[i], reportCell{Text: text, Class: t.Columns[j].Class, Heads: j == 0})
		}
	}
	return rows
}
