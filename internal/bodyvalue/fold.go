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

// foldsTo reports whether a text is, in any case, one that is given in lower case.
func foldsTo(text []byte, lower string) bool {
	for _, want := range lower {
		r, size := utf8.DecodeRune(text)
		if size == 0 || FoldRune(r) != want {
			return false
		}
		text = text[size:]
	}
	return len(text) == 0
}

// equalASCII is [foldsTo] for ASCII alone, as in names of header fields and media types.
func equalASCII(text []byte, lower string) bool {
	if len(text) != len(lower) {
		return false
	}
	for i, c := range text {
		if FoldASCII(c) != lower[i] {
			return false
		}
	}
	return true
}
