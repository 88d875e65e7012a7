package accesslog

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable makes a stranger's text fit for a terminal: control characters (so terminal escapes
// and line breaks too), invisible characters that turn the direction of writing, and bytes that are
// no UTF-8 are written as escapes. The result has most characters at most, the last is … where
// something was cut off. It is not fit for HTML, whose templates have escapes of their own.
func Printable(text string, most int) string {
	if len(text) <= most && plain(text) {
		return text
	}
	var b strings.Builder
	length, fits := 0, 0 // in characters; in bytes of what leaves room for …
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		shown := visible(r, text[:size])
		if length += utf8.RuneCountInString(shown); length > most {
			return b.String()[:fits] + ellipsis(most)
		}
		b.WriteString(shown)
		if length < most {
			fits = b.Len()
		}
		text = text[size:]
	}
	return b.String()
}

func ellipsis(most int) string {
	if most < 1 {
		return ""
	}
	return "…"
}

// visible is a character as it is, or its escape.
func visible(r rune, bytes string) string {
	switch {
	case r == utf8.RuneError && len(bytes) == 1, r < 0x80 && !unicode.IsPrint(r):
		return fmt.Sprintf(`\x%02x`, bytes[0])
	case unicode.IsPrint(r):
		return bytes
	case r <= 0xffff:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}

func plain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}
