package requestvalue

import (
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
)

// Name is the name of a cookie or of a parameter of the query. [ParseName] makes one.
type Name struct {
	text   string
	folded string // in lower case, with "_" for each byte that PHP takes for one
}

// ParseName returns a name, with which names in requests are compared.
func ParseName(text string) Name {
	folded := []byte(text)
	for i, c := range folded {
		folded[i] = foldName(c)
	}
	return Name{text, string(folded)}
}

// String returns the name as it was parsed.
func (n Name) String() string { return n.text }

// foldName returns the byte of a name as the most tolerant servers compare it: nginx ignores case, PHP takes ".", a blank
// and "[" for "_".
func foldName(c byte) byte {
	switch c {
	case '.', ' ', '[':
		return '_'
	}
	return bodyvalue.FoldASCII(c)
}

// match says how the name of a cookie or of a parameter in a request compares with the one that is asked for.
type match uint8

const (
	matchNone     match = iota // every server takes it for another one
	matchExact                 // every server takes it for the name
	matchConflict              // some servers take it for the name, or for an object of that name
)

// compareCookie compares with the name of a cookie, without blanks at its ends.
func (n Name) compareCookie(name string) match {
	switch {
	case name == n.text:
		return matchExact
	case n.conflicts(name, false):
		return matchConflict
	}
	return matchNone
}

// compareParameter compares with the name of a parameter, as it stands in the query.
func (n Name) compareParameter(name string) match {
	switch {
	case name == n.text, strings.IndexByte(name, '%') >= 0 && n.isDecoded(name):
		return matchExact
	case n.conflicts(name, true):
		return matchConflict
	}
	return matchNone
}

// decodedByte returns the byte that stands at an index of a name, and the index of its last letter: %xx is one byte, and in a
// query "+" a blank. A "%" without two digits stays, and is not ok.
func decodedByte(name string, at int, inQuery bool) (c byte, last int, ok bool) {
	switch c = name[at]; {
	case c == '%':
		if decoded, ok := bodyvalue.Unescape(name[at:]); ok {
			return decoded, at + bodyvalue.EscapeLength - 1, true
		}
		return c, at, false
	case c == '+' && inQuery:
		c = ' '
	}
	return c, at, true
}

// isDecoded reports whether a name with percent-encoded bytes is this one.
func (n Name) isDecoded(name string) bool {
	k := 0
	for i := 0; i < len(name); i, k = i+1, k+1 {
		c, last, ok := decodedByte(name, i, true)
		if i = last; !ok {
			return false
		}
		if k == len(n.text) || c != n.text[k] {
			return false
		}
	}
	return k == len(n.text)
}

// conflicts reports whether some server takes a name for this one: it is the name but for what [foldName] ignores and what
// some drop at the ends, or the name and a bracket, which makes an object of it. In a query "+" is a blank, and what stands
// behind NUL is dropped by some.
func (n Name) conflicts(name string, inQuery bool) bool {
	k, begun := 0, false
	for i := 0; i < len(name); i++ {
		c, last, _ := decodedByte(name, i, inQuery)
		i = last
		outer := isOuter(c, inQuery)
		switch {
		case outer && !begun && !n.begins(c):
			continue
		case k == len(n.folded):
			return c == '[' || c == 0 || outer && onlyOuter(name[i+1:], inQuery)
		case foldName(c) != n.folded[k]:
			return false
		}
		begun = true
		k++
	}
	return k == len(n.folded)
}

// begins reports whether the name begins with a byte.
func (n Name) begins(c byte) bool { return n.text != "" && n.text[0] == c }

// isOuter reports whether some servers drop a byte at the ends of a name: blanks, also those of Latin-1 and UTF-8 that do
// not break lines, and in a query brackets and a second question mark.
func isOuter(c byte, inQuery bool) bool {
	switch c {
	case ' ', '\t', '\r', '\n', 0xa0, 0xc2:
		return true
	case '[', ']', '?':
		return inQuery
	}
	return false
}

// onlyOuter reports whether nothing but such bytes, as they stand or percent-encoded, is left of a name.
func onlyOuter(rest string, inQuery bool) bool {
	for i := 0; i < len(rest); i++ {
		c, last, _ := decodedByte(rest, i, inQuery)
		i = last
		if c != 0 && !isOuter(c, inQuery) && (!inQuery || c != '+') {
			return false
		}
	}
	return true
}
