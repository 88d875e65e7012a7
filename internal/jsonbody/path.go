package jsonbody

import "fmt"

// Path is the names that lead to a value, from the outermost one. [ParsePath] makes one; the zero value leads to
// the document itself.
type Path struct{ names []string }

// ParsePath reads names joined by dots. A backslash makes the next character part of a name. It is the syntax of
// [ParseSum] for one path without a factor.
func ParsePath(text string) (Path, error) {
	p := sumParser{rest: text}
	names, separator, err := p.path()
	switch {
	case err != nil:
		return Path{}, err
	case separator != 0:
		return Path{}, fmt.Errorf(`%q is not part of a path; write \%[1]c if a name has it`, separator)
	}
	return Path{names}, nil
}

// First returns the first name, which a parameter of the query may replace in some applications.
func (p Path) First() string {
	if len(p.names) == 0 {
		return ""
	}
	return p.names[0]
}
