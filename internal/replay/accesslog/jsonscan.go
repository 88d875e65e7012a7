package accesslog

import (
	"encoding/json"
	"strings"
)

// members iterates over the members of a JSON object without allocating: keys and values are substrings of the
// text. It does not validate nested values, and only finds their ends.
type members struct {
	text string
	at   int

	key   string // as written, without its quotes
	value string // as written, a string with its quotes

	broken bool // the iteration ended before the end of the object
}

// next reads the next member, and reports whether there is one.
func (m *members) next() bool {
	first := m.at == 0
	m.broken = first && !m.skip('{')
	if m.broken || m.skip('}') {
		return false
	}
	m.broken = true
	if !first && !m.skip(',') || m.skipSpace() != '"' {
		return false
	}
	from := m.at
	if !m.skipString() {
		return false
	}
	m.key = m.text[from+1 : m.at-1]
	if !m.skip(':') {
		return false
	}
	m.skipSpace()
	if from = m.at; !m.skipValue() {
		return false
	}
	m.value, m.broken = m.text[from:m.at], false
	return true
}

// skip moves behind a byte, if it is the first after blanks.
func (m *members) skip(c byte) bool {
	if m.skipSpace() != c {
		return false
	}
	m.at++
	return true
}

// skipSpace returns the first byte after blanks; 0 at the end.
func (m *members) skipSpace() byte {
	for ; m.at < len(m.text); m.at++ {
		switch c := m.text[m.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// skipString moves behind the string that begins here.
func (m *members) skipString() bool {
	for m.at++; ; m.at++ {
		quote := strings.IndexByte(m.text[m.at:], '"')
		if quote < 0 {
			return false
		}
		if backslash := strings.IndexByte(m.text[m.at:m.at+quote], '\\'); backslash >= 0 {
			if m.at += backslash + 1; m.at >= len(m.text)-1 {
				return false
			}
			continue // after the escaped character
		}
		m.at += quote + 1
		return true
	}
}

// skipValue moves behind the value that begins here, of any depth.
func (m *members) skipValue() bool {
	from := m.at
	for depth := 0; m.at < len(m.text); {
		switch m.text[m.at] {
		case '"':
			if !m.skipString() {
				return false
			}
		case '{', '[':
			depth++
			m.at++
			continue
		case '}', ']':
			if depth--; depth < 0 {
				return m.at > from
			}
			m.at++
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return m.at > from
			}
			m.at++
			continue
		default:
			m.at++
			continue
		}
		if depth == 0 {
			return true
		}
	}
	return false // an object does not end with a value
}

// unquote returns the text of a JSON string; empty for any other value.
func unquote(value string) string {
	if len(value) < 2 || value[0] != '"' {
		return ""
	}
	inner := value[1 : len(value)-1]
	if strings.IndexByte(inner, '\\') < 0 {
		return inner
	}
	var text string
	if json.Unmarshal([]byte(value), &text) != nil {
		return unescape(inner) // Apache has no other escapes for JSON
	}
	return text
}
