package main

import (
	"encoding/json"
	"strconv"
	"strings"
)

// escape returns a text in which all but letters and digits are escaped.
func escape(text string) string {
	const digits = "0123456789ABCDEF"
	var escaped []byte
	for i := range len(text) {
		c := text[i]
		if c-'0' <= 9 || c|0x20-'a' <= 'z'-'a' {
			escaped = append(escaped, c)
		} else {
			escaped = append(escaped, '%', digits[c>>4], digits[c&15])
		}
	}
	return string(escaped)
}

// isPrintable reports whether a text is printable ASCII, without blanks.
func isPrintable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// quoteShort quotes a text, and cuts a long one.
func quoteShort(text string) string {
	if len(text) > 120 {
		text = text[:60] + "…" + text[len(text)-20:] + "…" + strconv.Itoa(len(text))
	}
	return strconv.QuoteToASCII(text)
}

// quoteJSON returns a text as JSON writes it, escapes of HTML left out.
func quoteJSON(text string) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a string has a form
	return strings.TrimSuffix(b.String(), "\n")
}

// utf16LE returns ASCII as UTF-16, the low byte first.
func utf16LE(text string) string {
	var b strings.Builder
	for i := range len(text) {
		b.WriteByte(text[i])
		b.WriteByte(0)
	}
	return b.String()
}

// utf16BE returns ASCII as UTF-16, the high byte first.
func utf16BE(text string) string { return "\x00" + strings.TrimSuffix(utf16LE(text), "\x00") }
