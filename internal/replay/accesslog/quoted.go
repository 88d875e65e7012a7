package accesslog

import (
	"strconv"
	"strings"
)

// quoted reads a text in quotes and returns the rest of the line. A text without a closing quote, as in a
// line that was cut off, reaches to the end.
func quoted(text string) (value, rest string) {
	if text == "" || text[0] != '"' {
		return "", text
	}
	for at := 1; at < len(text); at++ {
		switch text[at] {
		case '\\':
			at++
		case '"':
			return unescape(text[1:at]), text[at+1:]
		}
	}
	return unescape(text[1:]), ""
}

// unescape decodes the escapes of Apache and nginx: \" \\ \n \r \t \b \v and \x22. Before anything else a
// backslash stands for itself.
func unescape(text string) string {
	at := strings.IndexByte(text, '\\')
	if at < 0 {
		return text
	}
	var b strings.Builder
	b.Grow(len(text))
	for at >= 0 {
		b.WriteString(text[:at])
		char, length := readEscape(text[at:])
		b.WriteByte(char)
		text = text[at+length:]
		at = strings.IndexByte(text, '\\')
	}
	b.WriteString(text)
	return b.String()
}

// readEscape reads the escape at the beginning of a text and returns its length too.
func readEscape(text string) (char byte, length int) {
	if len(text) < 2 {
		return '\\', 1
	}
	const names, meanings = `"\nrtbv`, "\"\\\n\r\t\b\v"
	if i := strings.IndexByte(names, text[1]); i >= 0 {
		return meanings[i], 2
	}
	if text[1] == 'x' && len(text) >= 4 {
		if code, err := strconv.ParseUint(text[2:4], 16, 8); err == nil {
			return byte(code), 4
		}
	}
	return '\\', 1
}
