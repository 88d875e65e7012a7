package tryout

import (
	"regexp/syntax"
	"strings"
)

// longestText bounds texts that are made of regular expressions.
const longestText = 1000

// textFor returns a text that a regular expression finds; false: no short one was found.
func textFor(pattern string) (text string, ok bool) {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return "", false
	}
	var made strings.Builder
	ok = writeMatch(&made, parsed)
	return made.String(), ok
}

// writeMatch writes a text that a part of a regular expression finds.
func writeMatch(text *strings.Builder, e *syntax.Regexp) bool {
	if text.Len() > longestText {
		return false
	}
	times := 1
	switch e.Op {
	case syntax.OpNoMatch:
		return false
	case syntax.OpLiteral:
		text.WriteString(string(e.Rune))
		return true
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		text.WriteByte('x')
		return true
	case syntax.OpCharClass:
		return writeClass(text, e.Rune)
	case syntax.OpAlternate:
		return writeMatch(text, e.Sub[0])
	case syntax.OpStar, syntax.OpQuest:
		return true
	case syntax.OpRepeat:
		times = e.Min
	case syntax.OpPlus, syntax.OpConcat, syntax.OpCapture, syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText,
		syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
	}
	for range times {
		for _, sub := range e.Sub {
			if !writeMatch(text, sub) {
				return false
			}
		}
	}
	return true
}

// writeClass writes a character of a class, rather a letter or a digit.
func writeClass(text *strings.Builder, ranges []rune) bool {
	for _, wanted := range "x7a1eA-_./" {
		for i := 0; i+1 < len(ranges); i += 2 {
			if wanted >= ranges[i] && wanted <= ranges[i+1] {
				text.WriteRune(wanted)
				return true
			}
		}
	}
	if len(ranges) == 0 {
		return false
	}
	text.WriteRune(ranges[0])
	return true
}

// pathFor returns a path that a pattern of a path matcher meets.
func pathFor(pattern string) string {
	switch text, isPrefix := strings.CutSuffix(pattern, "*"); {
	case text == "":
		return "/"
	case isPrefix && strings.HasSuffix(text, "/"):
		pattern = text + "x"
	case isPrefix:
		pattern = text
	}
	pattern = strings.ReplaceAll(pattern, "*", "x")
	if !strings.HasPrefix(pattern, "/") {
		pattern = "/" + pattern
	}
	return pattern
}

// hostFor returns a host that a pattern of a host matcher meets.
func hostFor(pattern string) string { return strings.ReplaceAll(pattern, "*", "www") }
