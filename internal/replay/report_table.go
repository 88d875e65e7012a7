package replay

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

// tableOf returns a table with a row for each item; nil without items.
func tableOf[T any](caption string, columns []reportColumn, items []T, row func(T) []string) *reportTable {
	if len(items) == 0 {
		return nil
	}
	t := &reportTable{Caption: caption, Columns: columns}
	for _, item := range items {
		t.Rows = append(t.Rows, row(item))
	}
	return t
}

// The classes of columns. Numbers stand to the right, keys break anywhere, and instants nowhere.
const (
	numbers = "n"
	keys    = "k"
	words   = "w"
	times   = "t"
)
