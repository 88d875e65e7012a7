package escape

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
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
		if got := Key(key); got != want {
			t.Errorf("%q: got %s, want %s", key, got, want)
		}
	}
	if key, err := ParseKey(`\x41\x7C`); err != nil || key != "A|" {
		t.Errorf("escapes that need not be: got %q, %v", key, err)
	}
	for _, text := range []string{`\`, `a\b`, `\x`, `\x4`, `\xzz`} {
		if key, err := ParseKey(text); err == nil {
			t.Errorf("%s: got %q, want an error", text, key)
		}
	}
}

func FuzzKey(f *testing.F) {
	f.Add("192.0.2.7")
	f.Add("\x00\xff\\x41\u202e")
	f.Fuzz(func(t *testing.T, key string) {
		text := Key(key)
		if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q: %q cannot be printed", key, text)
		}
		if back, err := ParseKey(text); err != nil || back != key {
			t.Errorf("%q: %q comes back as %q, %v", key, text, back, err)
		}
		_, _ = ParseKey(key) // must not panic
	})
}
