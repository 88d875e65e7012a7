package bodyvalue

import (
	"bytes"
	"net/http"
)

// ContentType is what a request's header says of its body. The zero value is a body without a type.
type ContentType struct {
	format   Format
	reason   UnreadableReason // why the format is FormatNone
	boundary string           // of multipart/form-data
}

// Format is how values stand in a body.
type Format uint8

// The formats that are read.
const (
	FormatNone       Format = iota // none of these, see [ContentType.Reason]
	FormatJSON                     // application/json and application/*+json, but for application/x*+json
	formatURLEncoded               // application/x-www-form-urlencoded
	formatMultipart                // multipart/form-data
)

// Format returns how values stand in the body.
func (t ContentType) Format() Format { return t.format }

// Reason returns why no value is read from the body; where one is, it is [ReasonNone].
func (t ContentType) Reason() UnreadableReason {
	if t.format == FormatNone && t.reason == ReasonNone {
		return ReasonNoType
	}
	return t.reason
}

// refused returns a type from which nothing is read, for a reason.
func refused(reason UnreadableReason) ContentType { return ContentType{reason: reason} }

// maxBoundary is the length of the longest boundary (RFC 2046, section 5.1.1).
const maxBoundary = 70

// ContentTypeOf returns what a header says of the body: one Content-Type of a format that is read, its charset absent or UTF-8,
// and no Content-Encoding. Names in the header are canonical, as net/http has them.
func ContentTypeOf(header http.Header) ContentType {
	types := header["Content-Type"]
	switch {
	case len(header["Content-Encoding"]) > 0:
		return refused(ReasonEncoding)
	case len(types) == 0:
		return refused(ReasonNoType)
	case len(types) > 1:
		return refused(ReasonTypes)
	}
	switch types[0] { // as most clients write them
	case "application/json":
		return ContentType{format: FormatJSON}
	case "application/x-www-form-urlencoded":
		return ContentType{format: formatURLEncoded}
	}
	var space [128]byte // most are shorter
	text := bytes.Trim(append(space[:0], types[0]...), " \t")
	switch {
	case len(text) == 0:
		return refused(ReasonNoType)
	case bytes.IndexByte(text, ',') >= 0:
		return refused(ReasonTypes)
	}
	mediaType, parameters, ok := cutMediaType(text)
	if !ok {
		return refused(ReasonType)
	}
	format := formatOf(mediaType)
	if format == FormatNone || namesOther(format, text) {
		return refused(ReasonType)
	}
	return typeWith(format, text, parameters)
}

// typeWith returns the type of a format with the parameters of a Content-Type.
func typeWith(format Format, text, parameters []byte) ContentType {
	t, charsets := ContentType{format: format}, 0
	for len(parameters) > 0 {
		next, rest, ok := cutParameter(parameters)
		if !ok {
			return refused(ReasonType)
		}
		parameters = rest
		switch {
		case len(next.name) == 0:
		case equalASCII(next.name, "charset"):
			if charsets++; charsets > 1 || !isUTF8(next.value) {
				return refused(ReasonCharset)
			}
		case format != formatMultipart:
		case t.boundary != "" || !equalASCII(next.name, "boundary") || !isBoundary(next.value):
			return refused(ReasonBoundary)
		default:
			t.boundary = string(next.value)
		}
	}
	switch {
	case charsets == 0 && containsASCII(text, "charset"), charsets == 1 && countASCII(text, "charset") > 1:
		return refused(ReasonCharset)
	case format == formatMultipart && t.boundary == "":
		return refused(ReasonBoundary)
	}
	return t
}

// framedTypes have documents of JSON in frames of gRPC and Connect, maybe in a stream whose client waits for answers between
// them.
var framedTypes = []string{"application/grpc+json", "application/grpc-web+json", "application/connect+json"}

// formatOf returns the format of a media type.
func formatOf(mediaType []byte) Format {
	switch {
	case equalASCII(mediaType, "application/json"):
		return FormatJSON
	case equalASCII(mediaType, "application/x-www-form-urlencoded"):
		return formatURLEncoded
	case equalASCII(mediaType, "multipart/form-data"):
		return formatMultipart
	}
	for _, framed := range framedTypes {
		if equalASCII(mediaType, framed) {
			return FormatNone
		}
	}
	const prefix, suffix = "application/", "+json"
	n := len(mediaType) - len(suffix)
	switch {
	case n <= len(prefix), !equalASCII(mediaType[:len(prefix)], prefix), !equalASCII(mediaType[n:], suffix):
		return FormatNone
	case FoldASCII(mediaType[len(prefix)]) == 'x': // Elysia takes application/x… for a form, by this letter
		return FormatNone
	}
	return FormatJSON
}

// namesOther reports whether a Content-Type has words of another format, which some parsers look for anywhere in it.
func namesOther(format Format, text []byte) bool {
	words := []string{"urlencoded", "form-data", "multipart"}
	switch format {
	case formatURLEncoded:
		words = []string{"json", "form-data", "multipart"}
	case formatMultipart: // has no parameters for them but the boundary, which is a client's choice
		return false
	}
	for _, word := range words {
		if containsASCII(text, word) {
			return true
		}
	}
	return false
}

// isBoundary reports whether parsers agree on a boundary.
func isBoundary(text []byte) bool {
	for _, c := range text {
		if !isAlphanumeric(c) && c != '-' && c != '_' && c != '.' && c != '+' {
			return false
		}
	}
	return len(text) > 0 && len(text) <= maxBoundary
}

// isUTF8 reports whether a charset is UTF-8.
func isUTF8(charset []byte) bool { return equalASCII(charset, "utf-8") || equalASCII(charset, "utf8") }

// cutMediaType cuts a Content-Type behind its media type (RFC 9110, section 8.3.1). It is false if none is there.
func cutMediaType(text []byte) (mediaType, parameters []byte, ok bool) {
	n := tokenLength(text)
	if n == 0 || n == len(text) || text[n] != '/' {
		return nil, nil, false
	}
	subtype := tokenLength(text[n+1:])
	return text[:n+1+subtype], text[n+1+subtype:], subtype > 0
}

// parameter is one of a Content-Type, without quotes. That behind the last semicolon may have no name.
type parameter struct{ name, value []byte }

// cutParameter cuts the next parameter, with the semicolons before it (RFC 9110, section 5.6.6), of a text that is not
// empty. It is false where none begins, and for quotes with a backslash, over which parsers differ.
func cutParameter(text []byte) (p parameter, rest []byte, ok bool) {
	text = bytes.TrimLeft(text, " \t")
	if len(text) == 0 || text[0] != ';' {
		return p, nil, false
	}
	if text = trimSemicolons(text); len(text) == 0 {
		return p, nil, true
	}
	n := tokenLength(text)
	if n == 0 || n == len(text) || text[n] != '=' {
		return p, nil, false
	}
	p.name, text = text[:n], text[n+1:]
	if quoted, isQuoted := bytes.CutPrefix(text, []byte(`"`)); isQuoted {
		p.value, rest, ok = bytes.Cut(quoted, []byte(`"`))
		return p, rest, ok && isQuotable(p.value)
	}
	n = tokenLength(text)
	p.value, rest = text[:n], text[n:]
	return p, rest, n > 0
}

// trimSemicolons cuts semicolons, and the blanks between, off the begin of a text.
func trimSemicolons(text []byte) []byte {
	for i, c := range text {
		if c != ';' && c != ' ' && c != '\t' {
			return text[i:]
		}
	}
	return nil
}

// isQuotable reports whether parsers agree on a text between quotes.
func isQuotable(text []byte) bool {
	for _, c := range text {
		if c < ' ' || c > '~' || c == '\\' {
			return false
		}
	}
	return true
}

// tokenLength returns how many bytes at the begin of a text make a token (RFC 9110, section 5.6.2).
func tokenLength(text []byte) int {
	for i, c := range text {
		if !isAlphanumeric(c) && bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), c) < 0 {
			return i
		}
	}
	return len(text)
}

// isAlphanumeric reports whether a byte is a letter or a digit of ASCII.
func isAlphanumeric(c byte) bool { return c-'0' <= 9 || FoldASCII(c)-'a' <= 'z'-'a' }

// containsASCII reports whether a text has a word in any case.
func containsASCII(text []byte, lower string) bool { return countASCII(text, lower) > 0 }

// countASCII returns how often a text has a word in any case.
func countASCII(text []byte, lower string) (n int) {
	for i := range max(0, len(text)-len(lower)+1) {
		if FoldASCII(text[i]) == lower[0] && equalASCII(text[i:i+len(lower)], lower) {
			n++
		}
	}
	return n
}
