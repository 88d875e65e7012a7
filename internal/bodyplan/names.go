package bodyplan

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// NamesInJSON returns the names, without braces, of the body's placeholders in the texts and names of a JSON document, each
// once, and without those inside of objects that are left out; leaveOut may be nil. A document that is no JSON has none.
func NamesInJSON(document []byte, leaveOut func(object map[string]any) bool) []string {
	if !bytes.Contains(document, []byte(Prefix)) { // which JSON needs not escape
		return nil
	}
	var value any
	if json.Unmarshal(document, &value) != nil {
		return nil
	}
	names := namesIn(nil, value, leaveOut)
	slices.Sort(names)
	return slices.Compact(names)
}

// namesIn appends the names in a value of JSON.
func namesIn(names []string, value any, leaveOut func(map[string]any) bool) []string {
	switch value := value.(type) {
	case string:
		return appendNames(names, value)
	case []any:
		for _, element := range value {
			names = namesIn(names, element, leaveOut)
		}
	case map[string]any:
		if leaveOut != nil && leaveOut(value) {
			return names
		}
		for name, member := range value {
			names = namesIn(appendNames(names, name), member, leaveOut)
		}
	}
	return names
}

// appendNames appends the names in a text.
func appendNames(names []string, text string) []string {
	for {
		at := strings.Index(text, "{"+Prefix)
		if at < 0 {
			return names
		}
		text = text[at+1:]
		end := strings.IndexAny(text, "{}")
		if end >= 0 && text[end] == '}' && IsName(text[:end]) {
			names = append(names, text[:end])
		}
	}
}
