package answer

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
	kind := contentType
	if end := strings.IndexByte(kind, ';'); end >= 0 {
		kind = kind[:end]
	}
	kind = strings.TrimRight(kind, " \t")
	if len(kind) > maxTypeLen {
		return ""
	}
	for i := range len(kind) {
		if !standsInTypes[kind[i]] {
			return ""
		}
	}
	return strings.ToLower(kind)
}

// standsInTypes are the bytes that stand in the media types that a form is chosen by.
var standsInTypes = func() (stands [256]bool) {
	for _, b := range []byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/+-._*") {
		stands[b] = true
	}
	return stands
}()
