package bodyvalue

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// FoldKey returns the one text for all that applications and databases take for the same account: "Bob@Example.com " and
// "bób@example.com" are bob@example.com. It has no white space and control characters at its ends, no format characters
// (such as soft hyphens and marks of direction), compatibility characters decomposed (NFKD), no marks, one case, and
// ASCII for what collations take for ASCII. The text of a folded text is itself.
func FoldKey(text string) string {
	if isFolded(text) {
		return text
	}
	folded := make([]byte, 0, len(text))
	if isASCII(text) {
		for i := range len(text) {
			folded = append(folded, FoldASCII(text[i]))
		}
	} else {
		for _, r := range norm.NFKD.String(replaceLookalikes(text)) {
			folded = appendFolded(folded, r)
		}
	}
	return strings.TrimFunc(string(folded), isOuter)
}

// isOuter reports whether a character is dropped at the ends of a key. Format characters are already gone.
func isOuter(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }

// isFolded reports whether a text is folded, as most are: ASCII in lower case.
func isFolded(text string) bool {
	for i := range len(text) {
		if c := text[i]; c >= utf8.RuneSelf || c != FoldASCII(c) {
			return false
		}
	}
	return text == "" || !isOuter(rune(text[0])) && !isOuter(rune(text[len(text)-1]))
}

// isASCII reports whether a text is ASCII.
func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// replaceLookalikes replaces characters by the ASCII that collations take for them. It comes before the decomposition,
// which makes blanks of some that collations ignore.
func replaceLookalikes(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	for _, r := range text {
		if ascii, ok := lookalikes()[r]; ok {
			b.WriteString(ascii)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// appendFolded appends a decomposed character of a key, if anything is left of the character.
func appendFolded(folded []byte, r rune) []byte {
	if r < utf8.RuneSelf {
		return append(folded, FoldASCII(byte(r)))
	}
	if ascii, ok := lookalikes()[r]; ok {
		return append(folded, ascii...)
	}
	switch {
	case unicode.In(r, unicode.M, unicode.Cf):
		return folded
	case unicode.Is(unicode.Nd, r):
		return append(folded, '0'+digitValue(r))
	}
	if r = FoldRune(r); r == 'ß' { // the one character that full case folding makes longer and NFKD does not
		return append(folded, "ss"...)
	}
	return utf8.AppendRune(folded, r)
}

// digitValue returns the value of a decimal digit. The digits of a script follow one another from 0 on, and the ranges
// of the table begin with one (Unicode, section 4.6).
func digitValue(r rune) byte {
	for _, digits := range unicode.Nd.R16 {
		if r <= rune(digits.Hi) {
			return byte((r - rune(digits.Lo)) % 10)
		}
	}
	for _, digits := range unicode.Nd.R32 {
		if r <= rune(digits.Hi) {
			return byte((r - rune(digits.Lo)) % 10)
		}
	}
	return 0
}
