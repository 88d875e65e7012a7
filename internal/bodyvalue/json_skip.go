package bodyvalue

import "bytes"

// skipper passes over an object or an array that no path leads into, or over a string. It counts brackets
// outside of strings, and so needs the same memory at any depth. Brackets are not matched by kind.
type skipper struct {
	depth    int64 // brackets that are open
	inString bool
	escaped  bool // the next byte of the string follows a backslash
}

// Brackets have three bits in common that nothing else of JSON has outside of strings: only x, y, z and a
// few other characters have them. A fourth one is set in ] and }.
const (
	bracketBits = 0x58
	closingBit  = 0x04
)

// run passes over data up to the bracket that brings the depth to 0, and returns how many bytes that is.
// The depth is above 0 at first.
func (s *skipper) run(data []byte) int {
	for i := 0; i < len(data); {
		if s.inString {
			i += s.string(data[i:])
			continue
		}
		for i < len(data) && data[i] != '"' && data[i]&bracketBits != bracketBits {
			i++
		}
		if i == len(data) {
			break
		}
		switch c := data[i]; {
		case c == '"':
			s.inString = true
		case c&closingBit == 0:
			s.depth++
		default:
			if s.depth--; s.depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return len(data)
}

// string passes over data up to the quote that ends the string, and returns how many bytes that is.
func (s *skipper) string(data []byte) int {
	for i := 0; ; {
		n := bytes.IndexByte(data[i:], '"')
		end := i + n
		if n < 0 {
			end = len(data)
		}
		slashes := 0
		for end-slashes > i && data[end-slashes-1] == '\\' {
			slashes++
		}
		if slashes == end-i && s.escaped {
			slashes++ // the one before data[i:]
		}
		s.escaped = slashes%2 == 1
		if n < 0 {
			return end
		}
		i = end + 1
		if !s.escaped {
			s.inString = false
			return i
		}
		s.escaped = false // the quote was
	}
}
