package options

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// DecodeJSON reads JSON into a struct and refuses unknown fields, and timeouts of 0. Its error says which field is wrong and what to write
// there, and shows no text: it may be a secret.
func DecodeJSON(text []byte, into any) error {
	err := caddy.StrictUnmarshalJSON(text, into)
	if err == nil && !bytes.Contains(text, []byte(timeoutField+`"`)) || err != nil && !json.Valid(text) {
		return err
	}
	if located := fieldError("", text, reflect.TypeOf(into).Elem()); located != nil {
		return located
	}
	return err
}

// timeoutField ends the names of durations that are above 0, of which 0 would be the default.
const timeoutField = "timeout"

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// fieldError returns the error of the first value that a type cannot take, nil if there is none.
func fieldError(path string, text json.RawMessage, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	leaf := path != "" && reflect.PointerTo(t).Implements(unmarshaler)
	switch {
	case string(text) == "null":
		return nil
	case !leaf && t.Kind() == reflect.Struct:
		var fields map[string]json.RawMessage
		if json.Unmarshal(text, &fields) == nil {
			return structError(path, fields, t)
		}
	case !leaf && t.Kind() == reflect.Slice:
		var elements []json.RawMessage
		if json.Unmarshal(text, &elements) == nil {
			for i, element := range elements {
				if err := fieldError(fmt.Sprintf("%s[%d]", path, i), element, t.Elem()); err != nil {
					return err
				}
			}
			return nil
		}
	}
	if value := reflect.New(t); json.Unmarshal(text, value.Interface()) == nil {
		if d, is := value.Interface().(*caddy.Duration); is && *d == 0 && strings.HasSuffix(path, timeoutField) {
			return fmt.Errorf(`%s: 0; write a duration above 0 such as "10s", or leave it out for the default`, strings.TrimPrefix(path, "."))
		}
		return nil
	}
	return fmt.Errorf("%s: %s; write %s", strings.TrimPrefix(path, "."), kindOf(text), formOf(text, t))
}

func structError(path string, fields map[string]json.RawMessage, t reflect.Type) error {
	known := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			known[name] = f.Type
		}
	}
	names := slices.Sorted(maps.Keys(known))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		within := strings.TrimPrefix(path+"."+name, ".")
		i := slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, name) }) // as encoding/json
		if i < 0 {
			return fmt.Errorf("%s: unknown field; did you mean %s?", within, strings.Join(closest(name, names), ", "))
		}
		if err := fieldError(within, fields[name], known[names[i]]); err != nil {
			return err
		}
	}
	return nil
}

// kindOf says what a JSON value is.
func kindOf(text json.RawMessage) string {
	switch text[0] {
	case '"':
		return "is a text"
	case '{':
		return "is an object"
	case '[':
		return "is a list"
	case 't', 'f':
		return "is " + string(text)
	}
	return "is a number"
}

// formOf says what to write in place of a JSON value.
func formOf(text json.RawMessage, t reflect.Type) string {
	var given string
	isText := json.Unmarshal(text, &given) == nil
	if t == reflect.TypeFor[caddy.Duration]() {
		if meant := DurationMeant(given); isText && meant != "" {
			return strconv.Quote(meant)
		}
		return `a duration such as "1m"`
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		if n, err := strconv.ParseInt(given, 10, 64); err == nil {
			return strconv.FormatInt(n, 10) + " without quotes"
		}
		return "a whole number such as 5"
	case reflect.Float64:
		return "a number such as 12.5"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return `a text in quotes such as "a"`
	case reflect.Slice:
		return "a list in brackets, [ ... ]"
	}
	return "an object in braces, { ... }"
}
