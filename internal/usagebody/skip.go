package usagebody

import (
	"bytes"
	"encoding/binary"
)

// skipper passes over an object or an array that no path leads into, or over a string. It counts brackets
// outside of strings, and so needs the same memory at any depth. Brackets are not matched by kind.
type skipper struct {
	depth    int64 // brackets that are open
	inString bool
	escaped  bool // the next byte of the string follows a backslash
}

// Words of eight equal bytes, and of single bits in each byte.
const (
	ones     = 0x0101010101010101
	lowBits  = 0x7f7f7f7f7f7f7f7f
	highBits = 0x8080808080808080
	bit6     = 0x4040404040404040
	quotes   = 0x2222222222222222
	highBit  = 0x80
)

// Brackets have three bits in common that nothing else of JSON has outside of strings: only x, y, z and a
// few other characters have them. A fourth one is set in ] and }.
const (
	bracketBits = 0x58
	closingBit  = 0x04
)

// zeros returns the highest bit of each byte of a word that is 0.
func zeros(w uint64) uint64 { return ^((w&lowBits + lowBits) | w | lowBits) }

// wordLen and blockLen are how many bytes are looked at together.
const (
	wordLen  = 8
	blockLen = 4 * wordLen
)

// run passes over data up to the bracket that brings the depth to 0, and returns how many bytes that is.
// The depth is above 0 at first. It takes 32 bytes at a time: in strings it goes to the closing quote, in
// numbers to the next quote, bracket or letter, and elsewhere it counts the brackets that are outside of
// strings without a branch for each of them.
func (s *skipper) run(data []byte) int {
	i, quote, slash := 0, -1, -1 // neither stands from i up to these places
	for i+blockLen <= len(data) {
		block := data[i : i+blockLen : i+blockLen]
		w0, w1 := binary.LittleEndian.Uint64(block), binary.LittleEndian.Uint64(block[8:])
		w2, w3 := binary.LittleEndian.Uint64(block[16:]), binary.LittleEndian.Uint64(block[24:])
		q0, q1, q2, q3 := zeros(w0^quotes), zeros(w1^quotes), zeros(w2^quotes), zeros(w3^quotes)
		inside := uint64(0)
		if s.inString {
			if q0|q1|q2|q3 == 0 || s.escaped {
				i += s.string(data[i:])
				continue
			}
			inside = ^inside
		} else if q0|q1|q2|q3|(w0|w1|w2|w3)&bit6 == 0 {
			if i += blockLen; quote < i {
				quote = find(data, i, '"')
			}
			i += plain(data[i:quote])
			continue
		}
		if slash < i {
			slash = find(data, i, '\\')
		}
		if slash >= i+blockLen {
			before := uint64(min(s.depth, blockLen)) + highBit - 1
			depth, above, inside := count(w0, q0, before, highBits, inside)
			depth, above, inside = count(w1, q1, depth, above, inside)
			depth, above, inside = count(w2, q2, depth, above, inside)
			depth, above, inside = count(w3, q3, depth, above, inside)
			if above == highBits {
				s.depth, s.inString = s.depth+int64(depth)-int64(before), inside != 0
				i += blockLen
				continue
			}
		} else if s.inString {
			i += s.string(data[i:])
			continue
		}
		if i += s.bytes(block); s.depth == 0 {
			return i
		}
	}
	return i + s.bytes(data[i:])
}

// find returns the place of the first such byte from a place on; the length of data: there is none.
func find(data []byte, from int, c byte) int {
	if n := bytes.IndexByte(data[from:], c); n >= 0 {
		return from + n
	}
	return len(data)
}

// count counts the brackets of a word that are outside of strings. q are its quotes; inside is not 0 where
// it begins within a string. The depth stands in one byte, so that the highest bit is 0 for a depth of 0.
// above keeps the highest bits of the depths behind each of the bytes.
func count(w, q, depth, above, inside uint64) (nextDepth, nextAbove, nextInside uint64) {
	// In a product with ones each byte is the sum of the bytes up to it.
	inside ^= (q >> 7) * ones // odd from each opening quote up to the closing one
	found := w << 1 & (w << 3) & (w << 4) & highBits &^ (inside << 7)
	depths := (found>>7 - found&(w<<5)>>6 + depth) * ones
	return depths >> 56, above & depths, uint64(int64(inside<<7) >> 63)
}

// plain returns how many bytes there are before the first bracket or letter, or a few less.
func plain(data []byte) int {
	i := 0
	for ; i+blockLen <= len(data); i += blockLen {
		block := data[i : i+blockLen : i+blockLen]
		if (binary.LittleEndian.Uint64(block)|binary.LittleEndian.Uint64(block[8:])|
			binary.LittleEndian.Uint64(block[16:])|binary.LittleEndian.Uint64(block[24:]))&bit6 != 0 {
			break
		}
	}
	return i
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

// bytes does the same as run, byte by byte.
func (s *skipper) bytes(data []byte) int {
	for i, c := range data {
		switch {
		case s.escaped:
			s.escaped = false
		case s.inString:
			s.inString, s.escaped = c != '"', c == '\\'
		case c == '"':
			s.inString = true
		case c&bracketBits == bracketBits:
			if s.depth++; c&closingBit != 0 {
				if s.depth -= 2; s.depth == 0 {
					return i + 1
				}
			}
		}
	}
	return len(data)
}
