package display

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

func TestKey(t *testing.T) {
	for key, want := range map[string]string{
		"192.0.2.7":        "192.0.2.7",
		"":                 "",
		"Zoë|größe %7C":    "Zoë|größe %7C",
		`back\slash`:       `back\\slash`,
		"\x1b[31mred\n":    `\x1b[31mred\x0a`,
		"\xff\xfe":         `\xff\xfe`,
		"a\u202egnirts":    `a\xe2\x80\xaegnirts`,
		`\x41`:             `\\x41`,
		"\ufffd is a rune": "\ufffd is a rune",
	} {
		assert.Equal(t, EscapeKey(key), want, "%q", key)
	}
	if key, err := ParseKey(`\x41\x7C`); err != nil || key != "A|" {
		t.Errorf("escapes that need not be: got %q, %v", key, err)
	}
	for _, text := range []string{`\`, `a\b`, `\x`, `\x4`, `\xzz`} {
		key, err := ParseKey(text)
		assert.ErrorIf(t, err == nil, "%s: got %q, want an error", text, key)
	}
}

func FuzzKey(f *testing.F) {
	f.Add("192.0.2.7")
	f.Add("\x00\xff\\x41\u202e")
	f.Fuzz(func(t *testing.T, key string) {
		text := EscapeKey(key)
		if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q: %q cannot be printed", key, text)
		}
		back, err := ParseKey(text)
		assert.ErrorIf(t, err != nil || back != key, "%q: %q comes back as %q, %v", key, text, back, err)
		_, _ = ParseKey(key) // must not panic
	})
}

func TestEscapeShort(t *testing.T) {
	for _, tt := range []struct {
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
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := EscapeShort(tt.text, tt.most)
			assert.ErrorIf(t, got != tt.want || utf8.RuneCountInString(got) > tt.most, "got %q, want %q", got, tt.want)
		})
	}
}

func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		"203.0.113.7":       "203.0.113.7",
		"größe 漢":           "größe 漢",
		"\x1b[31m":          `\x1b[31m`,
		"a\u009b1m":         `a\u009b1m`,
		"\u202eabc":         `\u202eabc`,
		"line\nbreak\t":     `line\x0abreak\x09`,
		"tag \U000e0041":    `tag \U000e0041`,
		"not UTF-8: \x9b":   `not UTF-8: \x9b`,
		"a\\x1b is written": `a\x1b is written`,
	} {
		assert.Equal(t, Escape(text), want, "%q shown as", text)
	}
}

func TestEscapeJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":"größe 漢"}`:          `{"a":"größe 漢"}`,
		"\"\x7f\u009b1m\u202e\"":   `"\u007f\u009b1m\u202e"`,
		"\"tag \U000e0041 \xff\"":  `"tag \udb40\udc41 \ufffd"`,
		`"\u001b is escaped once"`: `"\u001b is escaped once"`,
	} {
		got := EscapeJSON(text)
		assert.ErrorIf(t, got != want, "%q is shown as %q; want %q", text, got, want)
		var before, after any
		if json.Unmarshal([]byte(text), &before) != nil || json.Unmarshal([]byte(got), &after) != nil || !reflect.DeepEqual(before, after) {
			t.Errorf("%q means %q, not %q", got, after, before)
		}
	}
}

func FuzzEscapeShort(f *testing.F) {
	f.Add("a\x1b[31m\u202e", 5)
	f.Add("é\xff", 1)
	f.Fuzz(func(t *testing.T, text string, most int) {
		shown := EscapeShort(text, most)
		if utf8.RuneCountInString(shown) > max(0, most) || !utf8.ValidString(shown) || strings.ContainsFunc(shown, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("%q", shown)
		}
	})
}
