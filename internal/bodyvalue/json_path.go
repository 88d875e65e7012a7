package bodyvalue

import (
	"fmt"
	"strings"
)

// JSONPath is the names that lead to a value, from the outermost one. [ParseJSONPath] makes one; the zero value leads to
// the document itself.
type JSONPath struct{ names []string }

// ParseJSONPath reads names joined by dots. A backslash makes the next character part of a name. It is the syntax of
// [ParseSum] for one path without a factor, but a minus is a part of a name, since there is nothing to subtract.
func ParseJSONPath(text string) (JSONPath, error) {
	if err := checkPath(text); err != nil {
		return JSONPath{}, err
	}
	p := sumParser{rest: strings.NewReplacer(`\\`, `\\`, `\-`, `\-`, "-", `\-`).Replace(text)}
	names, _, err := p.path()
	return JSONPath{names}, err
}

// checkPath refuses what would be the syntax of a sum around a path. The sum's errors say how to write one.
func checkPath(text string) error {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case c == '[':
			return fmt.Errorf(`%q is not part of a path, and no value is read within an array; write names joined by dots, such as `+
				`user.email, and \%[1]c if a name has it`, c)
		case strings.IndexByte("|+*{}]$#\"' \t\r\n", c) >= 0:
			return fmt.Errorf(`%q is not part of a path; write names joined by dots, such as user.email, and \%[1]c if a name has it`, c)
		}
	}
	return nil
}

// First returns the first name, which a parameter of the query may replace in some applications.
func (p JSONPath) First() string {
	if len(p.names) == 0 {
		return ""
	}
	return p.names[0]
}
