package bodyvalue

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// NamesInJSON returns the names, without braces, of the body's placeholders in the texts and names of a JSON document, each
// once, and without those inside of objects that are left out; leaveOut may be nil. A document that is no JSON has none.
func NamesInJSON(document []byte, leaveOut func(object map[string]any) bool) []string {
	return search{PlaceholderPrefix, leaveOut, appendNames}.in(document)
}

// ShortNamesInJSON returns the short names in the same way, which hold inside of the directive alone: json.<path> and
// form.<name>. A brace behind a backslash, a dollar sign or another brace begins none, as in scripts and templates.
func ShortNamesInJSON(document []byte, leaveOut func(object map[string]any) bool) []string {
	return search{"{", leaveOut, appendShortNames}.in(document)
}

// search is for names in documents of JSON.
type search struct {
	mark     string // that any document with a name has, as JSON need not escape it
	leaveOut func(object map[string]any) bool
	find     func(names []string, text string) []string // appends the names in a text
}

// in returns the names in a document.
func (s search) in(document []byte) []string {
	if !bytes.Contains(document, []byte(s.mark)) {
		return nil
	}
	var value any
	if json.Unmarshal(document, &value) != nil {
		return nil
	}
	names := s.appendFrom(nil, value)
	slices.Sort(names)
	return slices.Compact(names)
}

// appendFrom appends the names in a value of JSON.
func (s search) appendFrom(names []string, value any) []string {
	switch value := value.(type) {
	case string:
		return s.find(names, value)
	case []any:
		for _, element := range value {
			names = s.appendFrom(names, element)
		}
	case map[string]any:
		if s.leaveOut != nil && s.leaveOut(value) {
			return names
		}
		for name, member := range value {
			names = s.appendFrom(s.find(names, name), member)
		}
	}
	return names
}

// appendNames appends the names in a text.
func appendNames(names []string, text string) []string {
	for {
		at := strings.Index(text, "{"+PlaceholderPrefix)
		if at < 0 {
			return names
		}
		text = text[at+1:]
		end := strings.IndexAny(text, "{}")
		if end >= 0 && text[end] == '}' && IsPlaceholder(text[:end]) {
			names = append(names, text[:end])
		}
	}
}

// appendShortNames appends the short names in a text.
func appendShortNames(names []string, text string) []string {
	for at := range len(text) {
		if text[at] != '{' || at > 0 && strings.IndexByte(`\${`, text[at-1]) >= 0 {
			continue
		}
		rest := text[at+1:]
		end := strings.IndexAny(rest, "{}")
		if end < 0 || rest[end] != '}' {
			continue
		}
		if kind, name, _ := strings.Cut(rest[:end], "."); name != "" && (kind == "json" || kind == "form") {
			names = append(names, rest[:end])
		}
	}
	return names
}
