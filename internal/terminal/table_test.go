package terminal

import (
	"strings"
	"testing"
)

// drawn returns a table as written to a terminal with colors, or to a pipe.
func drawn(colored bool, rows ...[]string) string {
	var text strings.Builder
	table := &Table{Columns: []Column{{Title: "KEY"}, {Title: "COUNT", Right: true}, {Title: "NOTE"}, {Title: "DETAIL"}}}
	for _, row := range rows {
		table.Add(row...)
	}
	w := New(&text)
	w.colored = colored
	table.Write(w)
	return text.String()
}

func TestTable_Write_alignment(t *testing.T) {
	long := strings.Repeat("key with spaces ", 20) + "end"
	got := drawn(false, []string{"ä", "5", "", "first"}, []string{"longer", "1000", "", long}, []string{"\x1b[2J", "1", "", ""})
	want := "KEY      COUNT  DETAIL\nä            5  first\nlonger    1000  " + long + "\n\\x1b[2J      1\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestTable_Write_colors(t *testing.T) {
	row := []string{"k", "1", "denied (dry run)", "ok then"}
	if got := drawn(true, row); !strings.Contains(got, red+"denied (dry run)"+plain) || !strings.Contains(got, bold+"KEY") {
		t.Errorf("got %q", got)
	}
	if got := drawn(false, row); strings.Contains(got, "\x1b") {
		t.Errorf("got %q", got)
	}
}

func TestKeyValues_Write(t *testing.T) {
	var text strings.Builder
	var values KeyValues
	values.Add("key", "a\nb")
	values.Add("note", "")
	values.Add("remaining", "3")
	if values.Write(New(&text)); text.String() != "key        a\\x0ab\nremaining  3\n" {
		t.Errorf("got %q", &text)
	}
}
