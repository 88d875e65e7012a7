package bodyvalue

import (
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxFolded is how many bytes a text has at most when it is folded. No account has a longer name. Characters may grow to
// eleven times their bytes, so that a long body would cost much time and memory without a bound.
const maxFolded = 4 << 10

// FoldKey returns the one text for all that applications and databases take for the same account: "Bob@Example.com " and
// "bób@example.com" are bob@example.com. It has no white space and control characters at its ends, no format characters
// (such as soft hyphens and marks of direction), compatibility characters decomposed (NFKD), no marks, one case, and one
// letter for those that collations take for it. The text of a folded text is itself. A text of which more than 4 KiB would
// be left stays as it is.
func FoldKey(text string) string {
	if isFolded(text) {
		return text
	}
	f := folder{folded: make([]byte, 0, min(len(text), maxFolded))}
	for i, r := range text {
		switch {
		case r < utf8.RuneSelf:
			f.fold(r)
		case ignored().has(r), isOuter(r) && f.dropsOuter():
		default:
			f.decompose(text[i:], r)
		}
		if f.isLong {
			return text
		}
	}
	return string(f.folded[:f.end])
}

// isOuter reports whether a character is dropped at the ends of a key.
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

// folder folds a text.
type folder struct {
	folded []byte // from the first character on that is not an outer one
	end    int    // bytes of it, without outer characters at the end
	isLong bool   // more than maxFolded would be left
}

// dropsOuter reports whether an outer character changes nothing: none is kept at the begin, and where the folded text is
// full already, a character behind it makes the text a long one.
func (f *folder) dropsOuter() bool { return f.end == 0 || len(f.folded) >= maxFolded }

// add adds a folded character.
func (f *folder) add(r rune) {
	outer := isOuter(r)
	switch {
	case outer && f.dropsOuter():
		return
	case len(f.folded) >= maxFolded:
		f.isLong = true
		return
	}
	f.folded = utf8.AppendRune(f.folded, r)
	if !outer {
		f.end = len(f.folded)
	}
}

// decompose adds the character that a text begins with. What collations take for another comes first: of some of these
// characters the decomposition begins with a blank, and collations ignore the whole.
func (f *folder) decompose(text string, r rune) {
	if same, ok := lookalikes()[r]; ok {
		f.addText(same)
		return
	}
	if isHangul(r) {
		for _, r := range norm.NFKD.String(string(r)) {
			f.add(r)
		}
		return
	}
	decomposed := norm.NFKD.PropertiesString(text).Decomposition()
	if decomposed == nil {
		f.fold(r)
		return
	}
	for len(decomposed) > 0 {
		r, size := utf8.DecodeRune(decomposed)
		decomposed = decomposed[size:]
		f.fold(r)
	}
}

// addText adds folded characters.
func (f *folder) addText(text string) {
	for _, r := range text {
		f.add(r)
	}
}

// isHangul reports whether a character is a syllable of Hangul, whose decompositions are in no table.
func isHangul(r rune) bool { return r >= 0xac00 && r <= 0xd7a3 }

// fold adds what is left of a decomposed character.
func (f *folder) fold(r rune) {
	switch {
	case r < utf8.RuneSelf:
		f.add(rune(FoldASCII(byte(r))))
		return
	case ignored().has(r):
		return
	}
	if same, ok := lookalikes()[r]; ok {
		f.addText(same)
		return
	}
	if unicode.Is(unicode.Nd, r) {
		r = rune('0' + digitValue(r))
	}
	if r = FoldRune(r); r == 'ß' { // the one character that full case folding makes longer and NFKD does not
		f.addText("ss")
		return
	}
	f.add(r)
}

// runeSet is a bit for each character up to the last mark.
type runeSet [0xe0200 / 64]uint64

func (s *runeSet) has(r rune) bool { return int(r/64) < len(s) && s[r/64]>>(r%64)&1 != 0 }

// ignored are the characters of which nothing is left: marks and format characters, but for those that are like letters,
// and others without a weight in collations. A text may have nothing else, and is looked through to its end then.
var ignored = sync.OnceValue(func() *runeSet {
	set := new(runeSet)
	for r := range rune(64 * len(set)) {
		if same, ok := lookalikes()[r]; ok && same == "" || !ok && unicode.In(r, unicode.M, unicode.Cf) {
			set[r/64] |= 1 << (r % 64)
		}
	}
	return set
})

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
