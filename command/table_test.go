package command

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// drawn is what a table looks like on a terminal of that width, 0 in a pipe.
func drawn(width int, colored bool, rows ...[]string) string {
	var text strings.Builder
	table := &textTable{columns: []column{{title: "KEY", shrink: true}, {title: "COUNT", right: true}, {title: "NOTE"}, {title: "DETAIL", wrap: true}}}
	for _, row := range rows {
		table.add(row...)
	}
	table.write(screen{out: &text, width: width, colored: colored})
	return text.String()
}

func TestTable_is_aligned_and_leaves_empty_columns_out(t *testing.T) {
	got := drawn(0, false, []string{"ä", "5", "", "first"}, []string{"longer", "1000", "", "second one"})
	want := "KEY     COUNT  DETAIL\nä           5  first\nlonger   1000  second one\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestTable_fits_a_terminal_and_is_whole_in_a_pipe(t *testing.T) {
	key, detail := strings.Repeat("k", 90), strings.Repeat("word ", 30)+"end"
	narrow := drawn(80, false, []string{key, "1", "", detail})
	for line := range strings.Lines(narrow) {
		if utf8.RuneCountInString(strings.TrimRight(line, "\n")) > 80 {
			t.Errorf("%q is wider than the terminal", line)
		}
	}
	if !strings.Contains(narrow, "k…k") || !strings.Contains(narrow, "end\n") {
		t.Errorf("got\n%s; want the key without its middle, and all of the detail", narrow)
	}
	if wide := drawn(0, false, []string{key, "1", "", detail}); strings.Count(wide, "\n") != 2 || !strings.Contains(wide, key) || !strings.Contains(wide, detail) {
		t.Errorf("got\n%s; want all of it in one line", wide)
	}
}

func TestTable_colors_words_on_a_terminal_alone(t *testing.T) {
	row := []string{"k", "1", "denied (dry run)", "ok then"}
	if got := drawn(80, true, row); !strings.Contains(got, red+"denied (dry run)"+plain) || !strings.Contains(got, bold+"KEY") {
		t.Errorf("got %q", got)
	}
	if got := drawn(80, false, row); strings.Contains(got, "\x1b") {
		t.Errorf("got %q", got)
	}
}
