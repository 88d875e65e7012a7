package bodyvalue

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// readURLEncoded scans application/x-www-form-urlencoded.
func (f *fields) readURLEncoded(body []byte) UnreadableReason {
	if reason := checkURLEncoded(body); reason != ReasonNone {
		return reason
	}
	for more := true; more; {
		field := body
		if i := bytes.IndexByte(body, '&'); i >= 0 {
			field, body = body[:i], body[i+1:]
		} else {
			more = false
		}
		if len(field) == 0 || f.differs(field) {
			continue
		}
		name, value, problem := cutField(field)
		if hasEscapes(name) {
			f.scratch = appendDecoded(f.scratch[:0], name)
			name = f.scratch
		}
		if reason := f.add(name, value, problem); reason != ReasonNone {
			return reason
		}
	}
	return ReasonNone
}

// cutField cuts a field behind its name. A second "=", which browsers encode, is a reason against the value: cpp-httplib takes
// "a=b=c" for a=c, and "=a=b" for a=b.
func cutField(field []byte) (name, value []byte, problem UnreadableReason) {
	name, value, _ = bytes.Cut(field, []byte("="))
	if len(name) > 0 && bytes.IndexByte(value, '=') < 0 {
		return name, value, ReasonNone
	}
	name, _, _ = bytes.Cut(bytes.TrimLeft(field, "="), []byte("="))
	return name, value, ReasonByte
}

// checkURLEncoded returns why a body is unreadable, whatever its fields are.
func checkURLEncoded(body []byte) UnreadableReason {
	text := bytes.TrimLeft(body, " ")
	switch {
	case !isPrintable(body):
		return ReasonByte
	case len(text) > 0 && bytes.IndexByte([]byte(`{["/?#`), text[0]) >= 0:
		return ReasonStart
	case bytes.IndexByte(body, ';') >= 0: // a field ends for some
		return ReasonSemicolon
	}
	return checkAllEscapes(body)
}

// isPrintable reports whether a body is printable ASCII, from ' ' to '~'. Browsers encode all else (URL Standard, section
// 5.2), and other parsers take a byte order mark, line ends and JSON behind blanks for more than that.
func isPrintable(body []byte) bool {
	const each, high = 0x0101010101010101, 0x8080808080808080 // in each of eight bytes
	refused := uint64(0)
	for ; len(body) >= 8; body = body[8:] {
		word := binary.LittleEndian.Uint64(body)
		refused |= (word - ' '*each) | word | (word + each) // a byte carries into the next only if it is refused itself
	}
	for _, c := range body {
		refused |= uint64(c-' ') | uint64(c) | uint64(c+1)
	}
	return refused&high == 0
}

// checkAllEscapes returns why a body is unreadable if one of its escapes is.
func checkAllEscapes(body []byte) UnreadableReason {
	for len(body) > 0 {
		if body[0] != '%' { // escapes stand alone or in long rows
			i := bytes.IndexByte(body, '%')
			if i < 0 {
				break
			}
			body = body[i:]
		}
		n, reason := checkEscapes(body)
		if reason != ReasonNone {
			return reason
		}
		body = body[n:]
	}
	return ReasonNone
}

// checkEscapes returns the length of the escapes of one character, with which a text begins.
func checkEscapes(text []byte) (int, UnreadableReason) {
	c, ok := Unescape(text)
	switch {
	case !ok:
		return 0, ReasonPercent
	case c < utf8.RuneSelf:
		return EscapeLength, ReasonNone
	}
	character, n := [utf8.UTFMax]byte{c}, 1
	for more := bits.LeadingZeros8(^c); n < min(more, utf8.UTFMax); n++ { // UTF-8 has as many bytes as its first one has ones
		if character[n], ok = Unescape(text[n*EscapeLength:]); !ok {
			return 0, ReasonUTF8
		}
	}
	if !utf8.Valid(character[:n]) {
		return 0, ReasonUTF8
	}
	return n * EscapeLength, ReasonNone
}

// appendDecoded appends a text without escapes. What is no escape stands for itself.
func appendDecoded[T string | []byte](decoded []byte, text T) []byte {
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '+' {
			c = ' '
		} else if escaped, ok := Unescape(text[i:]); ok {
			c = escaped
			i += EscapeLength - 1
		}
		decoded = append(decoded, c)
	}
	return decoded
}

// hasEscapes reports whether a text changes when it is decoded.
func hasEscapes(text []byte) bool {
	for _, c := range text {
		if c == '%' || c == '+' {
			return true
		}
	}
	return false
}

// decode returns a value without escapes.
func decode(value []byte) string {
	if !hasEscapes(value) {
		return string(value)
	}
	return string(appendDecoded(make([]byte, 0, len(value)), value))
}
