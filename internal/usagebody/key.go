package usagebody

import (
	"unicode/utf16"
	"unicode/utf8"
)

// key decodes the name of a member while it passes.
type key struct {
	name    [maxName + utf8.UTFMax]byte
	length  int // above maxName: no path has the name
	escape  int // characters of an escape that have passed, from the backslash on
	unit    rune
	pending rune // the first half of a surrogate pair; 0: none
}

// begin prepares for the next name.
func (k *key) begin() { k.length, k.escape, k.pending = 0, 0, 0 }

// isNew reports whether no character has passed.
func (k *key) isNew() bool { return k.length == 0 && k.escape == 0 && k.pending == 0 }

// find returns the node of the name in an object; nil: no path leads there.
func (k *key) find(object *node) *node {
	if k.length > maxName {
		return nil
	}
	return object.child(k.name[:k.length])
}

// next takes a character and reports whether the name ends with it.
func (k *key) next(c byte) bool {
	switch {
	case k.escape == 0 && c == '"':
		k.endPair()
		return true
	case k.escape == 0 && c == '\\':
		k.escape = 1
	case k.escape == 0:
		k.endPair()
		k.add(c)
	case k.escape == 1:
		k.endEscape(c)
	default:
		digit, ok := hexDigit(c)
		if !ok {
			k.spoil()
		}
		k.unit = k.unit<<4 | digit
		if k.escape++; k.escape == len(`\u0000`) {
			k.escape = 0
			k.endUnit()
		}
	}
	return false
}

// endEscape takes the character behind a backslash.
func (k *key) endEscape(c byte) {
	k.escape = 0
	if c == 'u' {
		k.escape, k.unit = 2, 0
		return
	}
	k.endPair()
	switch c {
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case '"', '\\', '/':
	default:
		k.spoil()
	}
	k.add(c)
}

// endUnit takes the UTF-16 unit of an escape.
func (k *key) endUnit() {
	if k.pending != 0 {
		if r := utf16.DecodeRune(k.pending, k.unit); r != utf8.RuneError {
			k.pending = 0
			k.addRune(r)
			return
		}
	}
	k.endPair()
	if utf16.IsSurrogate(k.unit) && k.unit < 0xdc00 {
		k.pending = k.unit
		return
	}
	k.addRune(k.unit) // the second half alone becomes U+FFFD
}

// endPair replaces the first half of a surrogate pair that stands alone.
func (k *key) endPair() {
	if k.pending != 0 {
		k.pending = 0
		k.addRune(utf8.RuneError)
	}
}

func (k *key) add(c byte) {
	if k.length <= maxName {
		k.name[k.length] = c
		k.length++
	}
}

func (k *key) addRune(r rune) {
	if k.length <= maxName {
		k.length += utf8.EncodeRune(k.name[k.length:], r)
	}
}

// spoil makes the name one that no path has.
func (k *key) spoil() { k.length = maxName + 1 }

// hexDigit returns the value of a digit of an escape.
func hexDigit(c byte) (rune, bool) {
	switch {
	case c-'0' <= 9:
		return rune(c - '0'), true
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return rune(c|0x20-'a') + 10, true
	}
	return 0, false
}
