package bodyvalue

import (
	"errors"
	"fmt"
	"strings"
)

// Bounds of what is read. They also bound the memory that one body needs.
const (
	maxPaths = 16  // of a sum
	maxNames = 16  // of a path
	maxName  = 256 // bytes of a name
)

// Sum is numbers at paths of a body, each times a factor, that are added and subtracted.
type Sum struct {
	terms        []term
	placeholders []string
}

// term is a part of a sum: the first number that is there, times a factor.
type term struct {
	minus       bool
	factor      Factor
	placeholder int // its number from 1, of the one that the factor comes from; 0: the factor is fixed
	paths       []path
	slots       []int // of the paths, in a plan
}

// path is the names that lead to a value, from the outermost one.
type path []string

// Placeholders returns those that factors come from, in braces, as often as they stand in the sum.
func (s Sum) Placeholders() []string { return s.placeholders }

// ParseSum reads terms joined by "+" and "-". A term is a path, with alternatives behind "|", and before it
// a factor and "*" if it has one: a decimal or a placeholder in braces. A path is names and indexes of
// arrays, from 0, joined by dots. A backslash makes the next character part of a name.
func ParseSum(text string) (Sum, error) {
	p := sumParser{rest: text}
	if strings.HasPrefix(text, "-") {
		return Sum{}, errMinus
	}
	sum, separator := Sum{}, byte('+')
	for paths := 0; separator != 0; paths++ {
		if paths == maxPaths {
			return Sum{}, fmt.Errorf("at most %d paths can be read", maxPaths)
		}
		if separator != '|' {
			sum.terms = append(sum.terms, term{minus: separator == '-', factor: factorUnit})
			if err := p.factor(&sum); err != nil {
				return Sum{}, err
			}
		}
		path, next, err := p.path()
		if err != nil {
			return Sum{}, err
		}
		last := &sum.terms[len(sum.terms)-1]
		last.paths, separator = append(last.paths, path), next
	}
	return sum, nil
}

// sumParser takes the parts of a sum off a text.
type sumParser struct{ rest string }

var (
	errNoName = errors.New(`a path or a name is empty; write names joined by single dots, such as usage.total_tokens, and a ` +
		`backslash before each of . | + - * that is part of a name`)
	errMinus  = errors.New(`a minus in front; begin with a term that is added, or write \- if a name has it`)
	errEscape = errors.New("a backslash at the end; write the character that it stands before")
	errFactor = errors.New(`a term has one factor, before its first path; write it as in 0.5*usage.input|usage.prompt, or \* if a name has it`)
)

// factor takes the factor of the sum's last term off, if it has one.
func (p *sumParser) factor(sum *Sum) error {
	end := factorEnd(p.rest)
	if end < 0 {
		return nil
	}
	text := p.rest[:end]
	if p.rest = p.rest[end+1:]; factorEnd(p.rest) >= 0 {
		return errFactor
	}
	last := &sum.terms[len(sum.terms)-1]
	if strings.HasPrefix(text, "{") && strings.IndexByte(text, '}') == len(text)-1 {
		sum.placeholders = append(sum.placeholders, text)
		last.placeholder = len(sum.placeholders)
		return nil
	}
	var ok bool
	if last.factor, ok = ParseFactor(text); !ok {
		return fmt.Errorf(`%q is no factor; write a decimal of at most 6 places up to 1000000, or a placeholder in braces, before "*" `+
			`and the path behind it, such as 0.5*usage.total_tokens; or \* if a name has it`, text)
	}
	return nil
}

// factorEnd returns the place of the "*" behind the factor that a text begins with; -1: it has none.
func factorEnd(text string) int {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '*':
			return i
		case '|', '+', '-':
			return -1
		case '\\':
			i++
		case '{':
			i += max(0, strings.IndexByte(text[i:], '}'))
		}
	}
	return -1
}

// path takes a path off, and returns the separator behind it: '|', '+', '-', or 0 at the end of the text.
func (p *sumParser) path() (names path, separator byte, err error) {
	for separator = '.'; separator == '.'; {
		var name string
		if name, separator, err = p.name(); err != nil {
			return nil, 0, err
		}
		if names = append(names, name); len(names) > maxNames {
			return nil, 0, fmt.Errorf("a path has at most %d names", maxNames)
		}
	}
	return names, separator, nil
}

// name takes a name off, and returns the separator behind it: also '.'.
func (p *sumParser) name() (name string, separator byte, err error) {
	var b strings.Builder
	i := 0
scan:
	for ; i < len(p.rest); i++ {
		switch c := p.rest[i]; c {
		case '.', '|', '+', '-':
			separator = c
			break scan
		case '\\':
			if i++; i == len(p.rest) {
				return "", 0, errEscape
			}
			b.WriteByte(p.rest[i])
		case '*':
			return "", 0, errFactor
		case '{', '}':
			return "", 0, fmt.Errorf(`%q is not part of a path; write a placeholder as a factor before a path, such as `+
				`{price}*usage.total_tokens, or \%[1]c if a name has it`, c)
		case '[', ']':
			return "", 0, errors.New("write an index of an array behind a dot, such as choices.0.tokens, or a bracket of a name behind a backslash")
		case '$', '#', '"', '\'', ' ', '\t', '\n', '\r':
			return "", 0, fmt.Errorf("%q is not part of a path; write names and indexes joined by dots, such as usage.total_tokens, or "+
				"\\%[1]c if a name has it", c)
		default:
			b.WriteByte(c)
		}
	}
	p.rest = p.rest[min(len(p.rest), i+1):]
	switch name = b.String(); {
	case name == "":
		return "", 0, errNoName
	case len(name) > maxName:
		return "", 0, fmt.Errorf("a name has at most %d bytes", maxName)
	}
	return name, separator, nil
}
