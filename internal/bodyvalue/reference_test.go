package bodyvalue

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// referenceFold folds a text as a whole, step by step.
func referenceFold(text string) string {
	var ascii, folded strings.Builder
	for _, r := range text {
		if same, ok := lookalikes()[r]; ok {
			ascii.WriteString(same)
		} else {
			ascii.WriteRune(r)
		}
	}
	for _, r := range norm.NFKD.String(ascii.String()) {
		same, isLike := lookalikes()[r]
		switch {
		case isLike:
			folded.WriteString(same)
		case unicode.In(r, unicode.M, unicode.Cf):
		case r >= utf8.RuneSelf && unicode.Is(unicode.Nd, r):
			folded.WriteByte('0' + digitValue(r))
		case FoldRune(r) == 'ß':
			folded.WriteString("ss")
		default:
			folded.WriteRune(FoldRune(r))
		}
	}
	return strings.TrimFunc(folded.String(), isOuter)
}
