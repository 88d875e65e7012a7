package formbody

import (
	"bytes"
	"math/bits"
	"unicode/utf8"
)

// byteClass is what a byte does in application/x-www-form-urlencoded.
type byteClass uint8

const (
	byteRefused   byteClass = iota // browsers encode the byte
	bytePlain                      // it stands for itself
	byteBlank                      // + is a blank
	bytePercent                    // an escape begins
	byteEquals                     // a name ends
	byteAmpersand                  // a field ends
	byteSemicolon                  // a field ends for some
)

// byteClasses are the classes of all bytes. Browsers encode all but printable ASCII (URL Standard, section 5.2), and
// other parsers take a byte order mark, line ends and JSON behind blanks for more than that.
var byteClasses = func() (classes [256]byteClass) {
	for c := ' '; c <= '~'; c++ {
		classes[c] = bytePlain
	}
	classes['+'], classes['%'], classes['='] = byteBlank, bytePercent, byteEquals
	classes['&'], classes[';'] = byteAmpersand, byteSemicolon
	return classes
}()

// readURLEncoded scans application/x-www-form-urlencoded.
func (f *fields) readURLEncoded(body []byte) Reason {
	if text := bytes.TrimLeft(body, " "); len(text) > 0 && bytes.IndexByte([]byte(`{["/?#`), text[0]) >= 0 {
		return ReasonStart
	}
	begin, equals, escaped := 0, -1, false // of the current field
	for i := 0; i < len(body); i++ {
		class := byteClasses[body[i]]
		if class == bytePlain {
			continue
		}
		switch class {
		case byteBlank:
			escaped = escaped || equals < 0
		case bytePercent:
			n, reason := checkEscapes(body[i:])
			if reason != ReasonNone {
				return reason
			}
			escaped = escaped || equals < 0
			i += n - 1
		case byteEquals:
			if equals < 0 {
				equals = i
			}
		case byteAmpersand:
			if reason := f.addURLEncoded(body, begin, equals, i, escaped); reason != ReasonNone {
				return reason
			}
			begin, equals, escaped = i+1, -1, false
		case byteSemicolon:
			return ReasonSemicolon
		default:
			return ReasonByte
		}
	}
	return f.addURLEncoded(body, begin, equals, len(body), escaped)
}

// addURLEncoded adds the field from begin to end. Its name ends at equals; below 0 the field is only a name. The name
// has escapes or not.
func (f *fields) addURLEncoded(body []byte, begin, equals, end int, escaped bool) Reason {
	if begin == end {
		return ReasonNone
	}
	name, value := body[begin:end], []byte(nil)
	if equals >= 0 {
		name, value = body[begin:equals], body[equals+1:end]
	}
	if escaped {
		f.scratch = appendDecoded(f.scratch[:0], name)
		name = f.scratch
	}
	return f.add(name, value, false)
}

// escapeLength is the length of an escape.
const escapeLength = len("%41")

// checkEscapes returns the length of the escapes of one character, with which a text begins.
func checkEscapes(text []byte) (int, Reason) {
	c, ok := unescape(text)
	switch {
	case !ok:
		return 0, ReasonPercent
	case c < utf8.RuneSelf:
		return escapeLength, ReasonNone
	}
	character, n := [utf8.UTFMax]byte{c}, 1
	for more := bits.LeadingZeros8(^c); n < min(more, utf8.UTFMax); n++ { // UTF-8 has as many bytes as its first one has ones
		if character[n], ok = unescape(text[n*escapeLength:]); !ok {
			return 0, ReasonUTF8
		}
	}
	if !utf8.Valid(character[:n]) {
		return 0, ReasonUTF8
	}
	return n * escapeLength, ReasonNone
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

// decode returns a value without escapes.
func decode(value []byte) string {
	if !bytes.ContainsAny(value, "+%") {
		return string(value)
	}
	return string(appendDecoded(make([]byte, 0, len(value)), value))
}
