package bodyvalue

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// PlaceholderPrefix is what the names of the handler's placeholders begin with.
const PlaceholderPrefix = "http.redis_ratelimit."

// What the names of sources begin with.
const (
	prefixJSON = PlaceholderPrefix + "json."
	prefixForm = PlaceholderPrefix + "form."
)

// ValueSource is where a value of a request's body comes from. [ParseSource] makes one.
type ValueSource struct {
	name   string    // of the placeholder
	isForm bool      // a field of a form, or else a path of JSON
	path   JSONPath  // of JSON
	field  FieldName // the field, or the first name of the path, with which parameters of the query can conflict
}

// IsPlaceholder reports whether the name of a placeholder, without braces, is one that [ParseSource] reads. What follows the
// prefix may be wrong.
func IsPlaceholder(name string) bool {
	return strings.HasPrefix(name, prefixJSON) || strings.HasPrefix(name, prefixForm)
}

// ParseSource reads the name of a placeholder, without braces: http.redis_ratelimit.json.<path> with a path that
// [ParseJSONPath] reads, or http.redis_ratelimit.form.<name> with the name of a form's field as it is sent.
func ParseSource(name string) (ValueSource, error) {
	if path, ok := strings.CutPrefix(name, prefixJSON); ok {
		return parseJSON(name, path)
	}
	if field, ok := strings.CutPrefix(name, prefixForm); ok {
		return parseForm(name, field)
	}
	return ValueSource{}, fmt.Errorf("%q is no placeholder of a body; write {%s<path>} or {%s<name>}", name, prefixJSON, prefixForm)
}

func parseJSON(name, text string) (ValueSource, error) {
	switch {
	case text == "":
		return ValueSource{}, errors.New(`no path stands behind "json."; write the names that lead to the value, such as json.user.email`)
	case !utf8.ValidString(text):
		return ValueSource{}, errors.New(`the path behind "json." is no UTF-8, which JSON always is`)
	}
	path, err := ParseJSONPath(text)
	if err != nil {
		return ValueSource{}, fmt.Errorf(`the path behind "json.": %w`, err)
	}
	first, err := ParseFieldName(path.First())
	if err != nil {
		return ValueSource{}, fmt.Errorf(`the path behind "json.": %w`, err)
	}
	return ValueSource{name: name, path: path, field: first}, nil
}

func parseForm(name, text string) (ValueSource, error) {
	if text == "" {
		return ValueSource{}, errors.New(`no name stands behind "form."; write the name of a field, such as form.email`)
	}
	field, err := ParseFieldName(text)
	switch {
	case err != nil:
		return ValueSource{}, fmt.Errorf(`the name behind "form.": %w`, err)
	case field.IsBare():
		return ValueSource{}, fmt.Errorf(`the name %q behind "form." is nothing but separators, over which applications differ; `+
			`write the name of a field, such as form.email`, text)
	}
	return ValueSource{name: name, isForm: true, field: field}, nil
}
