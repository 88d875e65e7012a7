// Package display writes for people: numbers and durations in words, tables and wrapped texts on terminals. It escapes
// what comes from clients, logs and configurations: terminals obey control characters, JSON holds no arbitrary bytes,
// and invisible characters reorder a line. [EscapeKey] is the form of keys that is also read, [Escape] and
// [EscapeShort] are for terminals, and [EscapeJSON] is for JSON on terminals. None of them is safe in HTML: templates
// escape for HTML themselves.
//
// It also describes policies, in numbers and in words ([PolicyDescription]): once for the admin API, the commands that ask it, explain,
// replay and its report. The text of a configuration stands in a description as it is: escape it to show it.
package display

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Escape replaces every character that does not print by an escape: control characters, so also terminal
// escapes and line breaks, characters that change the direction of writing, and bytes that are not UTF-8.
func Escape(text string) string {
	if isPlain(text) {
		return text
	}
	return replaced(text, codePoint)
}

// EscapeShort is [Escape] with a bound of the result's length, in characters. A longer text ends with … and never
// within an escape.
func EscapeShort(text string, most int) string {
	if len(text) <= most && isPlain(text) {
		return text
	}
	var b strings.Builder
	length, fits := 0, 0 // in characters; in bytes of the part that leaves room for …
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		shown := text[:size]
		if !prints(r, size) {
			shown = codePoint(r, shown)
		}
		if length += utf8.RuneCountInString(shown); length > most {
			return b.String()[:fits] + strings.Repeat("…", min(1, max(0, most)))
		}
		b.WriteString(shown)
		if length < most {
			fits = b.Len()
		}
		text = text[size:]
	}
	return b.String()
}

// EscapeJSON replaces every character that does not print by its escape in JSON. In compact or indented JSON
// such characters stand within strings only, apart from line breaks, so the value stays the same: hand
// over indented JSON line by line.
func EscapeJSON(text string) string { return replaced(text, utf16Units) }

// replaced returns a text with an escape for each character that does not print.
func replaced(text string, escape func(r rune, bytes string) string) string {
	var b strings.Builder
	b.Grow(len(text))
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if prints(r, size) {
			b.WriteString(text[:size])
		} else {
			b.WriteString(escape(r, text[:size]))
		}
		text = text[size:]
	}
	return b.String()
}

// prints reports whether a character of so many bytes is shown as it is. A byte that is not UTF-8 decodes
// as [utf8.RuneError] of one byte.
func prints(r rune, size int) bool {
	return unicode.IsPrint(r) && (r != utf8.RuneError || size > 1)
}

// codePoint is the escape of a character in Go's notation: \xNN, \uNNNN or \UNNNNNNNN.
func codePoint(r rune, bytes string) string {
	switch {
	case len(bytes) == 1:
		return hexBytes(bytes)
	case r <= 0xffff:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}

func hexBytes(bytes string) string {
	var b strings.Builder
	for i := range len(bytes) {
		fmt.Fprintf(&b, `\x%02x`, bytes[i])
	}
	return b.String()
}

func utf16Units(r rune, _ string) string {
	var b strings.Builder
	for _, unit := range utf16.AppendRune(nil, r) {
		fmt.Fprintf(&b, `\u%04x`, unit)
	}
	return b.String()
}

func isPlain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}
