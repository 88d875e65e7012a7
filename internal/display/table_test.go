package display

import (
	"os"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

func TestTable_Write_alignment(t *testing.T) {
	long := strings.Repeat("key with spaces ", 20) + "end"
	var text strings.Builder
	table := &Table{Columns: []Column{{Title: "KEY"}, {Title: "COUNT", Right: true}, {Title: "NOTE"}, {Title: "DETAIL"}}}
	for _, row := range [][]string{{"ä", "5", "", "first"}, {"longer", "1000", "", long}, {"\x1b[2J", "1", "", ""}} {
		table.Add(row...)
	}
	table.Write(NewWriter(&text))
	want := "KEY      COUNT  DETAIL\nä            5  first\nlonger    1000  " + long + "\n\\x1b[2J      1\n"
	got := text.String()
	assert.ErrorIf(t, got != want, "got\n%swant\n%s", got, want)
}

func TestKeyValues_Write(t *testing.T) {
	var text strings.Builder
	var values KeyValues
	values.Add("key", "a\nb")
	values.Add("note", "")
	values.Add("remaining", "3")
	if values.Write(NewWriter(&text)); text.String() != "key        a\\x0ab\nremaining  3\n" {
		t.Errorf("got %q", &text)
	}
}

func TestWriter_Err(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("this system has no /dev/full")
	}
	defer full.Close() //nolint:errcheck // its writes fail on purpose
	w := NewWriter(full)
	if w.Print("lost\n"); w.Err() == nil {
		t.Error("no error of a full disk")
	}
}
