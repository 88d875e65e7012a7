package bodyvalue

import (
	"encoding/binary"
	"math/bits"
)

// Constants of eight bytes at once.
const (
	eachByte = 0x0101010101010101
	eachHigh = 0x80 * eachByte
)

// plainRun returns how many bytes of a string have no meaning of their own: no quote, no backslash and no control
// character, which must not stand in strings (RFC 8259, section 7). Ascii is false if one of them is beyond ASCII.
func plainRun(data []byte) (n int, ascii bool) {
	seen := uint64(0)
	for ; len(data)-n >= 8; n += 8 {
		word := binary.LittleEndian.Uint64(data[n:])
		if special := specialBytes(word); special != 0 {
			k := bits.TrailingZeros64(special) &^ 7
			seen |= word & (1<<k - 1)
			return n + k/8, seen&eachHigh == 0
		}
		seen |= word
	}
	for ; n < len(data); n++ {
		c := data[n]
		if c == '"' || c == '\\' || c < ' ' {
			break
		}
		seen |= uint64(c)
	}
	return n, seen&eachHigh == 0
}

// specialBytes sets the highest bit of each byte that has a meaning of its own. Bits above the lowest one that is
// set may be wrong.
func specialBytes(word uint64) uint64 {
	quote, backslash := word^('"'*eachByte), word^('\\'*eachByte)
	return ((word - ' '*eachByte) | (quote - eachByte) | (backslash - eachByte)) &^ word & eachHigh
}

// numberEnd returns where the number that data begin with ends, if a byte that is no part of the number follows in
// data; 0 if none follows, and -1 if it is no number (RFC 8259, section 6).
func numberEnd(data []byte) int {
	i := 0
	if data[0] == '-' {
		i++
	}
	whole := digitsEnd(data, i)
	switch {
	case whole == len(data):
		return 0
	case whole == i:
		return -1
	case data[i] == '0':
		whole = i + 1 // a digit behind it is no part of the number
	}
	i = whole
	if data[i] == '.' {
		if i = fractionEnd(data, i+1); i <= 0 {
			return i
		}
	}
	if data[i] == 'e' || data[i] == 'E' {
		i++
		if i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		return fractionEnd(data, i)
	}
	return i
}

// fractionEnd returns where the digits end of which there must be one; 0 if they may go on, -1 if there is none.
func fractionEnd(data []byte, i int) int {
	switch end := digitsEnd(data, i); end {
	case len(data):
		return 0
	case i:
		return -1
	default:
		return end
	}
}

// digitsEnd returns where the digits from a place on end.
func digitsEnd(data []byte, i int) int {
	for i < len(data) && data[i]-'0' <= 9 {
		i++
	}
	return i
}
