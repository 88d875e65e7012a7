package terminal

import (
	"strings"
	"testing"
)

// drawn returns a table as written to a terminal of that width, or to a pipe with the width 0.
func drawn(width int, colored bool, rows ...[]string) string {
	return drawnWith(Column{Title: "DETAIL", Words: true}, width, colored, rows...)
}

// drawnWith returns a table with that last column.
func drawnWith(last Column, width int, colored bool, rows ...[]string) string {
	var text strings.Builder
	table := &Table{Columns: []Column{{Title: "KEY"}, {Title: "COUNT", Right: true}, {Title: "NOTE"}, last}}
	for _, row := range rows {
		table.Add(row...)
	}
	table.Write(Sized(&text, width, 24, colored))
	return text.String()
}

func TestTable_Write_alignment(t *testing.T) {
	got := drawn(0, false, []string{"ä", "5", "", "first"}, []string{"longer", "1000", "", "second one"})
	want := "KEY     COUNT  DETAIL\nä           5  first\nlonger   1000  second one\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestTable_Write_wide_characters(t *testing.T) {
	got := drawn(0, false, []string{"漢字", "5", "", "wide"}, []string{"e\u0301", "5", "", "one on the other"}, []string{"🙂", "5", "", "a picture"})
	want := "KEY   COUNT  DETAIL\n漢字      5  wide\ne\u0301         5  one on the other\n🙂        5  a picture\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestTable_Write_words(t *testing.T) {
	key, detail := strings.Repeat("k", 30), strings.Repeat("word ", 30)+"end"
	narrow := drawn(80, false, []string{key, "1", "", detail})
	wantFits(t, narrow, 80)
	if !strings.HasPrefix(narrow, "KEY ") || !strings.Contains(narrow, "end\n") {
		t.Errorf("got\n%s; want a table with all of the detail", narrow)
	}
	if wide := drawn(0, false, []string{key, "1", "", detail}); strings.Count(wide, "\n") != 2 || !strings.Contains(wide, detail) {
		t.Errorf("got\n%s; want all of it in one line", wide)
	}
}

func TestTable_Write_key_values(t *testing.T) {
	key, word := strings.Repeat("漢", 20), strings.Repeat("w", 30)
	got := drawn(60, false, []string{key, "1", "", word + " and " + word}, []string{"", "", "", "more"}, []string{"k", "20", "", "d"})
	want := "key     " + key + "\ncount   1\ndetail  " + word + " and\n        " + word + "\ndetail  more\n\nkey     k\ncount   20\ndetail  d\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	wantFits(t, got, 60)
}

func TestTable_Write_whole_keys(t *testing.T) {
	key := strings.Repeat("key with spaces ", 20) + "end"
	for _, width := range []int{1, 20, 60, 80, 200} {
		for _, row := range [][]string{{key, "1", "n", "d"}, {"k", "1", "n", key}, {strings.Repeat("k", 60), "1", "n", key}} {
			if got := drawnWith(Column{Title: "OPEN", Open: true}, width, false, row); !strings.Contains(got, key) {
				t.Errorf("%d columns: got\n%s", width, got)
			}
		}
	}
	if got := drawnWith(Column{Title: "OPEN", Open: true}, 80, false, []string{"k", "1", "n", key}); !strings.HasPrefix(got, "KEY ") {
		t.Errorf("got\n%s; want a table whose last column runs over the edge", got)
	}
}

// wantFits checks that no line is wider than a terminal.
func wantFits(t *testing.T, text string, columns int) {
	t.Helper()
	for line := range strings.Lines(text) {
		if widthOf(strings.TrimSuffix(line, "\n")) > columns {
			t.Errorf("%q is wider than %d columns", line, columns)
		}
	}
}

func TestTable_Write_colors(t *testing.T) {
	row := []string{"k", "1", "denied (dry run)", "ok then"}
	if got := drawn(80, true, row); !strings.Contains(got, red+"denied (dry run)"+plain) || !strings.Contains(got, bold+"KEY") {
		t.Errorf("got %q", got)
	}
	if got := drawn(80, false, row); strings.Contains(got, "\x1b") {
		t.Errorf("got %q", got)
	}
}
