package refusal

import "strings"

// only returns the value of a header that is there once; empty if the header is absent or repeated.
func only(values []string) string {
	if len(values) == 1 {
		return values[0]
	}
	return ""
}

// The most bytes that are looked at of a media type, and of headers and queries. What is longer gets the line of text.
const (
	maxTypeLen   = 127
	maxHeaderLen = 4096
)

// mediaType returns the media type of a Content-Type in lower case, without parameters; empty if it is none.
func mediaType(contentType string) string {
	kind, _, _ := strings.Cut(contentType, ";")
	kind = strings.TrimRight(kind, " \t")
	if len(kind) > maxTypeLen || strings.ContainsFunc(kind, isForeignToType) {
		return ""
	}
	return strings.ToLower(kind)
}

// isForeignToType reports whether a character stands in no media type that a form is chosen by.
func isForeignToType(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("/+-._*", r)
}
