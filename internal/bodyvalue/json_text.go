package bodyvalue

import (
	"unicode/utf16"
	"unicode/utf8"
)

// text decodes a string that has escapes or comes in pieces.
type text struct {
	kept  []byte // what the string begins with
	limit int    // bytes that are kept at most

	length    int  // bytes in all
	isEncoded bool // the first bytes are such as base64 has, see encodedLength
	isCounted bool // of what follows nothing but the length matters
	isName    bool // the last character matters too
	last      rune // that of a name
	lone      bool // it has half a surrogate pair
	nul       bool // it has U+0000

	escape escape
	unit   rune // the hexadecimal digits of an escape so far
	high   rune // the first half of a surrogate pair, whose second one must follow; 0: none

	cut  [utf8.UTFMax]byte // a character that the last piece has cut
	cuts int               // bytes of it
}

// escape is the part of an escape that comes next.
type escape uint8

const (
	escapeNone   escape = iota
	escapeLetter        // behind the backslash
	escapeHex           // the first of four hexadecimal digits
	escapeHex2
	escapeHex3
	escapeHex4
)

// begin prepares for the next string, of which so many bytes are kept.
func (t *text) begin(limit int) { *t = text{kept: t.kept[:0], limit: limit, isEncoded: true} }

// plain takes bytes without quotes, backslashes and control characters. It is false if they are no UTF-8.
func (t *text) plain(run []byte, ascii bool) bool {
	t.endPair()
	if ascii && t.cuts == 0 {
		t.add(run)
		return true
	}
	for ; t.cuts > 0 && len(run) > 0; run = run[1:] {
		t.cut[t.cuts] = run[0]
		t.cuts++
		if character := t.cut[:t.cuts]; utf8.FullRune(character) {
			if !utf8.Valid(character) {
				return false
			}
			t.add(character)
			t.cuts = 0
		}
	}
	whole := len(run) - cutBytes(run)
	t.cuts += copy(t.cut[t.cuts:], run[whole:])
	t.add(run[:whole])
	return utf8.Valid(run[:whole])
}

// cutBytes returns how many bytes at the end of a run begin a character that is not complete.
func cutBytes(run []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(run); n++ {
		if last := run[len(run)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}

// isBetween reports whether the bytes before are whole characters, and no half of a surrogate pair.
func (t *text) isBetween() bool { return t.cuts == 0 && t.high == 0 }

// isCut reports whether a character is not complete, behind which nothing else may stand.
func (t *text) isCut() bool { return t.cuts > 0 }

// add adds bytes of the string.
func (t *text) add(data []byte) {
	if t.isName && len(data) > 0 {
		t.last, _ = utf8.DecodeLastRune(data)
	}
	if !t.isCounted {
		t.look(data)
	}
	t.length += len(data)
}

// look looks at bytes before they are added.
func (t *text) look(data []byte) {
	if t.length < encodedLength && t.isEncoded {
		t.isEncoded = isEncoded(data[:min(len(data), encodedLength-t.length)])
	}
	if room := t.limit - len(t.kept); room > 0 {
		t.kept = append(t.kept, data[:min(len(data), room)]...)
	}
	isDecided := !t.isEncoded || t.length+len(data) >= encodedLength
	t.isCounted = isDecided && len(t.kept) == t.limit
}

// addRune adds a character.
func (t *text) addRune(r rune) {
	if t.isCounted && !t.isName {
		t.length += utf8.RuneLen(r)
		return
	}
	var space [utf8.UTFMax]byte
	t.add(utf8.AppendRune(space[:0], r))
}

// endPair adds the first half of a surrogate pair that no second one follows.
func (t *text) endPair() {
	if t.high != 0 {
		t.high, t.lone = 0, true
		t.addRune(utf8.RuneError)
	}
}

// simpleEscapes are the characters that letters behind a backslash stand for (RFC 8259, section 7).
var simpleEscapes = [256]byte{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// wholeEscape takes an escape that data begin with, and returns the bytes of it; 0: it is not complete, or none.
func (t *text) wholeEscape(data []byte) int {
	if len(data) < len(`\u0000`) {
		return 0
	}
	if c := simpleEscapes[data[1]]; c != 0 {
		t.endPair()
		t.addRune(rune(c))
		return 2
	}
	first, second, third, fourth := hexDigits[data[2]], hexDigits[data[3]], hexDigits[data[4]], hexDigits[data[5]]
	if data[1] != 'u' || first|second|third|fourth >= 16 {
		return 0
	}
	t.unit = rune(first)<<12 | rune(second)<<8 | rune(third)<<4 | rune(fourth)
	t.endUnit()
	return len(`\u0000`)
}

// escaped takes a byte of an escape, behind its backslash. It is false if the byte does not belong there.
func (t *text) escaped(c byte) bool {
	if t.escape == escapeLetter {
		if c == 'u' {
			t.escape, t.unit = escapeHex, 0
			return true
		}
		t.endPair()
		t.escape = escapeNone
		character := simpleEscapes[c]
		t.addRune(rune(character))
		return character != 0
	}
	digit := hexDigits[c]
	if digit >= 16 {
		return false
	}
	t.unit = t.unit<<4 | rune(digit)
	if t.escape++; t.escape > escapeHex4 {
		t.escape = escapeNone
		t.endUnit()
	}
	return true
}

// endUnit adds the character of four hexadecimal digits.
func (t *text) endUnit() {
	if t.high == 0 && !utf16.IsSurrogate(t.unit) {
		t.nul = t.nul || t.unit == 0
		t.addRune(t.unit)
		return
	}
	if pair := utf16.DecodeRune(t.high, t.unit); pair != utf8.RuneError {
		t.high = 0
		t.addRune(pair)
		return
	}
	t.endPair()
	switch {
	case !utf16.IsSurrogate(t.unit):
		t.endUnit() // no first half is there any more
	case t.unit < firstLowSurrogate:
		t.high = t.unit
	default:
		t.lone = true
		t.addRune(utf8.RuneError)
	}
}

// firstLowSurrogate is the first of the second halves of surrogate pairs.
const firstLowSurrogate = 0xDC00

// end ends the string and returns why applications may read different ones.
func (t *text) end() UnreadableReason {
	t.endPair()
	switch {
	case t.lone:
		return ReasonSurrogate
	case t.nul:
		return ReasonNUL
	}
	return ReasonNone
}
