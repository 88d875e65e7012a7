package bodyplan

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/formbody"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/jsonbody"
)

// Prefix is what the names of the handler's placeholders begin with.
const Prefix = "http.redis_ratelimit."

// What the names of sources begin with.
const (
	prefixJSON = Prefix + "json."
	prefixForm = Prefix + "form."
)

// Source is where a value of a request's body comes from. [ParseSource] makes one.
type Source struct {
	name   string        // of the placeholder
	isForm bool          // a field of a form, or else a path of JSON
	path   jsonbody.Path // of JSON
	field  formbody.Name // the field, or the first name of the path, with which parameters of the query can conflict
}

// IsName reports whether the name of a placeholder, without braces, is one that [ParseSource] reads. What follows the
// prefix may be wrong.
func IsName(name string) bool {
	return strings.HasPrefix(name, prefixJSON) || strings.HasPrefix(name, prefixForm)
}

// ParseSource reads the name of a placeholder, without braces: http.redis_ratelimit.json.<path> with a path that
// [jsonbody.ParsePath] reads, or http.redis_ratelimit.form.<name> with the name of a form's field as it is sent.
func ParseSource(name string) (Source, error) {
	if path, ok := strings.CutPrefix(name, prefixJSON); ok {
		return parseJSON(name, path)
	}
	if field, ok := strings.CutPrefix(name, prefixForm); ok {
		return parseForm(name, field)
	}
	return Source{}, fmt.Errorf("%q is no placeholder of a body; write {%s<path>} or {%s<name>}", name, prefixJSON, prefixForm)
}

func parseJSON(name, text string) (Source, error) {
	switch {
	case text == "":
		return Source{}, errors.New(`no path stands behind "json."; write the names that lead to the value, such as json.user.email`)
	case !utf8.ValidString(text):
		return Source{}, errors.New(`the path behind "json." is no UTF-8, which JSON always is`)
	}
	path, err := jsonbody.ParsePath(text)
	if err != nil {
		return Source{}, fmt.Errorf(`the path behind "json.": %w`, err)
	}
	first, err := formbody.ParseName(path.First())
	if err != nil {
		return Source{}, fmt.Errorf(`the path behind "json.": %w`, err)
	}
	return Source{name: name, path: path, field: first}, nil
}

func parseForm(name, text string) (Source, error) {
	if text == "" {
		return Source{}, errors.New(`no name stands behind "form."; write the name of a field, such as form.email`)
	}
	field, err := formbody.ParseName(text)
	switch {
	case err != nil:
		return Source{}, fmt.Errorf(`the name behind "form.": %w`, err)
	case field.IsBare():
		return Source{}, fmt.Errorf(`the name %q behind "form." is nothing but separators, over which applications differ; `+
			`write the name of a field, such as form.email`, text)
	}
	return Source{name: name, isForm: true, field: field}, nil
}
