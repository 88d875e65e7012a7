// Package usagebody reads numbers at paths of a JSON body while the body passes, such as the tokens that a
// language model reports: of one document, of the events of a stream, or of lines. It takes the body in
// pieces of any size, keeps none of it and allocates nothing per piece.
//
// It examines what paths lead through. In all else it counts brackets and finds the ends of strings, which
// is several times as fast as a parser that examines everything.
package usagebody

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

// Sum is numbers at paths of a body that are added up.
type Sum struct {
	text  string
	terms [][]path // each with its alternatives, of which the first counts that is there
}

// path is the names that lead to a value, from the outermost one.
type path []string

// String returns the sum as it was written.
func (s Sum) String() string { return s.text }

// ParseSum reads paths joined by "+", each of them with alternatives behind "|". A path is names and
// indexes of arrays, from 0, joined by dots. A backslash makes the next character part of a name.
func ParseSum(text string) (Sum, error) {
	p := pathParser{rest: text}
	sum := Sum{text: text, terms: [][]path{{nil}}}
	paths := 1
	for {
		name, separator, err := p.name()
		if err != nil {
			return Sum{}, err
		}
		term := &sum.terms[len(sum.terms)-1]
		last := &(*term)[len(*term)-1]
		if *last = append(*last, name); len(*last) > maxNames {
			return Sum{}, fmt.Errorf("a path has at most %d names", maxNames)
		}
		switch separator {
		case 0:
			return sum, nil
		case '.':
			continue
		case '|':
			*term = append(*term, nil)
		case '+':
			sum.terms = append(sum.terms, []path{nil})
		}
		if paths++; paths > maxPaths {
			return Sum{}, fmt.Errorf("at most %d paths can be read", maxPaths)
		}
	}
}

// pathParser takes names off a text.
type pathParser struct{ rest string }

var (
	errNoName = errors.New("a name is empty; write names joined by single dots, such as usage.total_tokens")
	errEscape = errors.New("a backslash at the end; write the character that it stands before")
)

// name returns the next name, and the separator behind it: '.', '|', '+', or 0 at the end of the text.
func (p *pathParser) name() (name string, separator byte, err error) {
	var b strings.Builder
	i := 0
scan:
	for ; i < len(p.rest); i++ {
		switch c := p.rest[i]; c {
		case '.', '|', '+':
			separator = c
			break scan
		case '\\':
			if i++; i == len(p.rest) {
				return "", 0, errEscape
			}
			b.WriteByte(p.rest[i])
		case '[', ']':
			return "", 0, errors.New("write an index of an array behind a dot, such as choices.0.tokens, or a bracket of a name behind a backslash")
		case '$', '*', '#', '{', '}', '"', '\'', ' ', '\t', '\n', '\r':
			return "", 0, fmt.Errorf("%q is not part of a path; write names and indexes joined by dots, such as usage.total_tokens, or \\%[1]c if a name has it", c)
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
