package accesslog

import (
	"testing"
	"unicode/utf8"
)

func TestPrintable_leaves_nothing_that_acts(t *testing.T) {
	tests := []struct {
		name, text string
		most       int
		want       string
	}{
		{"plain", "GET /a", 10, "GET /a"},
		{"just fits", "GET /a", 6, "GET /a"},
		{"cut", "GET /abc", 6, "GET /…"},
		{"letters of the world", "/é日本", 10, "/é日本"},
		{"letters of the world, just fit", "/é日本", 4, "/é日本"},
		{"letters of the world, cut", "/é日本", 3, "/é…"},
		{"terminal escape", "a\x1b[31mb", 20, `a\x1b[31mb`},
		{"an escape that does not fit", "ab\x1b[31m", 5, "ab…"},
		{"C1 control", "a\u009b31m", 20, `a\u009b31m`},
		{"line breaks", "a\r\nb\u2028c", 20, `a\x0d\x0ab\u2028c`},
		{"direction of writing", "a\u202eb\u2066c\u200f", 40, `a\u202eb\u2066c\u200f`},
		{"beyond 16 bits", "a\U000e0001", 40, `a\U000e0001`},
		{"no UTF-8", "a\xff\xc3", 20, `a\xff\xc3`},
		{"HTML stays", "<b>", 20, "<b>"},
		{"no room", "ab", 0, ""},
		{"room for one", "ab", 1, "…"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Printable(tt.text, tt.most)
			if got != tt.want || utf8.RuneCountInString(got) > tt.most {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
