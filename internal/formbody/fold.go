package formbody

import (
	"unicode/utf8"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
)

// foldsTo reports whether a text is, in any case, one that is given in lower case.
func foldsTo(text []byte, lower string) bool {
	for _, want := range lower {
		r, size := utf8.DecodeRune(text)
		if size == 0 || bodyvalue.FoldRune(r) != want {
			return false
		}
		text = text[size:]
	}
	return len(text) == 0
}

// equalASCII is [foldsTo] for ASCII alone, as in names of header fields and media types.
func equalASCII(text []byte, lower string) bool {
	if len(text) != len(lower) {
		return false
	}
	for i, c := range text {
		if bodyvalue.FoldASCII(c) != lower[i] {
			return false
		}
	}
	return true
}
