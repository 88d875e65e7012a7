package tryout

import (
	"fmt"
	"regexp"
	"strings"
)

// spelledWord finds a word in a text, each of its letters as it is, in upper case, or percent-encoded.
type spelledWord struct {
	word    string
	pattern *regexp.Regexp
}

func newSpelledWord(word string) spelledWord {
	var pattern strings.Builder
	for i := range len(word) {
		upper := strings.ToUpper(word[i : i+1])
		lower, capital := fmt.Sprintf("%%%02x", word[i]), fmt.Sprintf("%%%02x", upper[0])
		fmt.Fprintf(&pattern, "(%s|%s|(?i:%s|%s))", regexp.QuoteMeta(word[i:i+1]), regexp.QuoteMeta(upper), lower, capital)
	}
	return spelledWord{word, regexp.MustCompile(pattern.String())}
}

// carry returns a text with another word in the place of this one, wherever that stands, whose letters are spelled alike: the first and the
// last one as those of the word, the others as those at their place. Found is false if the text does not have the word.
func (w spelledWord) carry(text, other string) (carried string, found bool) {
	return w.carryBehind(text, "", other)
}

// carryBehind is [spelledWord.carry] with a text, as it is, in front of the other word where that stands first.
func (w spelledWord) carryBehind(text, front, other string) (carried string, found bool) {
	var made strings.Builder
	end := 0
	for _, at := range w.pattern.FindAllStringSubmatchIndex(text, -1) {
		made.WriteString(text[end:at[0]])
		if end == 0 {
			made.WriteString(front)
		}
		for i := range len(other) {
			letter := min(i, len(w.word)-2)
			if i == len(other)-1 && i > 0 {
				letter = len(w.word) - 1
			}
			made.WriteString(likeLetter(text[at[2+2*letter]:at[3+2*letter]], w.word[letter], other[i]))
		}
		end = at[1]
	}
	return made.String() + text[end:], end > 0
}

// likeLetter spells a byte as a letter is spelled.
func likeLetter(spelled string, letter, other byte) string {
	text := string(rune(other))
	if other >= 0x80 {
		text = string([]byte{other})
	}
	isUpper := spelled[0] != '%' && spelled[0] != letter || strings.EqualFold(spelled, fmt.Sprintf("%%%02x", letter&^0x20))
	if isUpper {
		text = strings.ToUpper(text)
	}
	switch {
	case spelled[0] != '%':
		return text
	case strings.ToUpper(spelled) == spelled:
		return fmt.Sprintf("%%%02X", text[0])
	}
	return fmt.Sprintf("%%%02x", text[0])
}
