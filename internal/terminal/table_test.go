package terminal

import (
	"strings"
	"testing"
)

func TestTable_Write_alignment(t *testing.T) {
	long := strings.Repeat("key with spaces ", 20) + "end"
	var text strings.Builder
	table := &Table{Columns: []Column{{Title: "KEY"}, {Title: "COUNT", Right: true}, {Title: "NOTE"}, {Title: "DETAIL"}}}
	for _, row := range [][]string{{"ä", "5", "", "first"}, {"longer", "1000", "", long}, {"\x1b[2J", "1", "", ""}} {
		table.Add(row...)
	}
	table.Write(New(&text))
	want := "KEY      COUNT  DETAIL\nä            5  first\nlonger    1000  " + long + "\n\\x1b[2J      1\n"
	if got := text.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
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
