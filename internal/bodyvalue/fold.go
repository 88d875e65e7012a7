package bodyvalue

import (
	"unicode"
	"unicode/utf8"
)

// FoldRune returns the one character for all those that differ by case alone, by Unicode's simple mappings. It goes over
// the upper case, since applications compare in either one: ſ is s, and the dotless ı is i.
func FoldRune(r rune) rune {
	if r < utf8.RuneSelf {
		return rune(FoldASCII(byte(r)))
	}
	return unicode.ToLower(unicode.ToUpper(r))
}

// FoldASCII returns a letter of ASCII in lower case, and any other byte as it is.
func FoldASCII(c byte) byte {
	if c-'A' <= 'Z'-'A' {
		c += 'a' - 'A'
	}
	return c
}
