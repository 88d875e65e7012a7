package formbody

import (
	"bytes"
	"math/bits"
	"unicode/utf8"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
)

// byteClass is what bytes do in application/x-www-form-urlencoded; those of a whole body are joined.
type byteClass uint8

const (
	byteRefused   byteClass = 1 << iota // browsers encode the byte
	byteSemicolon                       // a field ends for some
	bytePercent                         // an escape begins
)

// byteClasses are the classes of all bytes. Browsers encode all but printable ASCII (URL Standard, section 5.2), and
// other parsers take a byte order mark, line ends and JSON behind blanks for more than that.
var byteClasses = func() (classes [256]byteClass) {
	for c := range classes {
		if c < ' ' || c > '~' {
			classes[c] = byteRefused
		}
	}
	classes[';'], classes['%'] = byteSemicolon, bytePercent
	return classes
}()

// readURLEncoded scans application/x-www-form-urlencoded.
func (f *fields) readURLEncoded(body []byte) bodyvalue.Reason {
	if reason := checkURLEncoded(body); reason != bodyvalue.ReasonNone {
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
		name, value, _ := bytes.Cut(field, []byte("="))
		if hasEscapes(name) {
			f.scratch = appendDecoded(f.scratch[:0], name)
			name = f.scratch
		}
		if reason := f.add(name, value, false); reason != bodyvalue.ReasonNone {
			return reason
		}
	}
	return bodyvalue.ReasonNone
}

// checkURLEncoded returns why a body is unreadable, whatever its fields are.
func checkURLEncoded(body []byte) bodyvalue.Reason {
	var class byteClass
	for _, c := range body {
		class |= byteClasses[c]
	}
	text := bytes.TrimLeft(body, " ")
	switch {
	case class&byteRefused != 0:
		return bodyvalue.ReasonByte
	case len(text) > 0 && bytes.IndexByte([]byte(`{["/?#`), text[0]) >= 0:
		return bodyvalue.ReasonStart
	case class&byteSemicolon != 0:
		return bodyvalue.ReasonSemicolon
	case class&bytePercent != 0:
		return checkAllEscapes(body)
	}
	return bodyvalue.ReasonNone
}

// checkAllEscapes returns why a body is unreadable if one of its escapes is.
func checkAllEscapes(body []byte) bodyvalue.Reason {
	for len(body) > 0 {
		if body[0] != '%' { // escapes stand alone or in long rows
			i := bytes.IndexByte(body, '%')
			if i < 0 {
				break
			}
			body = body[i:]
		}
		n, reason := checkEscapes(body)
		if reason != bodyvalue.ReasonNone {
			return reason
		}
		body = body[n:]
	}
	return bodyvalue.ReasonNone
}

// escapeLength is the length of an escape.
const escapeLength = len("%41")

// checkEscapes returns the length of the escapes of one character, with which a text begins.
func checkEscapes(text []byte) (int, bodyvalue.Reason) {
	c, ok := unescape(text)
	switch {
	case !ok:
		return 0, bodyvalue.ReasonPercent
	case c < utf8.RuneSelf:
		return escapeLength, bodyvalue.ReasonNone
	}
	character, n := [utf8.UTFMax]byte{c}, 1
	for more := bits.LeadingZeros8(^c); n < min(more, utf8.UTFMax); n++ { // UTF-8 has as many bytes as its first one has ones
		if character[n], ok = unescape(text[n*escapeLength:]); !ok {
			return 0, bodyvalue.ReasonUTF8
		}
	}
	if !utf8.Valid(character[:n]) {
		return 0, bodyvalue.ReasonUTF8
	}
	return n * escapeLength, bodyvalue.ReasonNone
}

// unescape returns the byte of an escape with which a text begins.
func unescape[T string | []byte](text T) (byte, bool) {
	if len(text) < escapeLength || text[0] != '%' {
		return 0, false
	}
	high, low := hexDigits[text[1]], hexDigits[text[2]]
	return high<<4 | low, high|low < 16
}

// hexDigits are the values of hexadecimal digits; any other byte has more than they.
var hexDigits = func() (values [256]byte) {
	for c := range values {
		values[c] = 0xf0
	}
	for i := range byte(10) {
		values['0'+i] = i
	}
	for i := range byte(6) {
		values['a'+i], values['A'+i] = 10+i, 10+i
	}
	return values
}()

// appendDecoded appends a text without escapes. What is no escape stands for itself.
func appendDecoded[T string | []byte](decoded []byte, text T) []byte {
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '+' {
			c = ' '
		} else if escaped, ok := unescape(text[i:]); ok {
			c = escaped
			i += escapeLength - 1
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
