package bodyvalue

import (
	"bytes"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// formField is what the head of a part says.
type formField struct {
	length  int    // bytes of the data
	name    []byte // of the field
	isFile  bool   // it has a file's name
	isTyped bool   // it has a Content-Type
	isText  bool   // which is text/plain in UTF-8
	has     [headFields]bool
}

// headField is a field of a part's head.
type headField uint8

const (
	fieldDisposition headField = iota
	fieldType
	fieldLength
	fieldTransferEncoding
	headFields
)

// headFieldNames are the only fields that a head may have, each once.
var headFieldNames = [headFields]string{
	fieldDisposition:      "content-disposition",
	fieldType:             "content-type",
	fieldLength:           "content-length",
	fieldTransferEncoding: "content-transfer-encoding",
}

// readLine reads a line of the head. It returns why parsers may differ over it.
func (p *formField) readLine(line []byte) UnreadableReason {
	name, value, ok := bytes.Cut(line, []byte(":"))
	if !ok || hasControl(line) {
		return ReasonHead
	}
	value = bytes.TrimPrefix(value, []byte(" "))
	for field := range headFields {
		if !equalASCII(name, headFieldNames[field]) {
			continue
		}
		if p.has[field] {
			return ReasonHead
		}
		p.has[field] = true
		return p.readField(field, value)
	}
	return ReasonHead
}

// readField reads the value of a field of the head.
func (p *formField) readField(field headField, value []byte) UnreadableReason {
	switch field {
	case fieldDisposition:
		return p.readDisposition(value)
	case fieldType:
		return p.readType(value)
	case fieldLength: // a parser might believe another one
		var space [20]byte
		if !bytes.Equal(value, strconv.AppendInt(space[:0], int64(p.length), 10)) {
			return ReasonHead
		}
	case fieldTransferEncoding: // others are decoded by some
		if !equalASCII(value, "7bit") && !equalASCII(value, "8bit") && !equalASCII(value, "binary") {
			return ReasonHead
		}
	}
	return ReasonNone
}

// hasControl reports whether a line has a control character of ASCII: a tab, or half a line end.
func hasControl(line []byte) bool {
	for _, c := range line {
		if c < ' ' || c == 0x7f {
			return true
		}
	}
	return false
}

// readDisposition reads a Content-Disposition (RFC 7578, section 4.2). Parsers differ over names without quotes,
// backslashes, parameters with an asterisk (RFC 5987), and find "name=" within other names. Netty ends names at a comma.
func (p *formField) readDisposition(value []byte) UnreadableReason {
	rest, ok := bytes.CutPrefix(value, []byte(`form-data; name="`))
	if !ok || bytes.ContainsAny(rest, `\*`) || !utf8.Valid(rest) {
		return ReasonDisposition
	}
	p.name, rest, ok = bytes.Cut(rest, []byte(`"`))
	if !ok || bytes.ContainsAny(p.name, `;,='`) || bytes.ContainsFunc(p.name, unicode.IsControl) {
		return ReasonDisposition
	}
	if len(rest) == 0 {
		return ReasonNone
	}
	rest, ok = bytes.CutPrefix(rest, []byte(`; filename="`))
	if !ok {
		return ReasonDisposition
	}
	filename, rest, ok := bytes.Cut(rest, []byte(`"`))
	if !ok || len(rest) > 0 || hasNameParameter(filename) {
		return ReasonDisposition
	}
	p.isFile = true
	return ReasonNone
}

// hasNameParameter reports whether a text has "name=", in any case and with blanks before the "=".
func hasNameParameter(text []byte) bool {
	const name = "name"
	end := 0 // of what stands before the blanks before a byte
	for i, c := range text {
		if c == '=' && end >= len(name) && equalASCII(text[end-len(name):end], name) {
			return true
		}
		if c != ' ' {
			end = i + 1
		}
	}
	return false
}

// readType reads a part's Content-Type. Some parsers unpack multipart/* and message/*, whatever part has them.
func (p *formField) readType(value []byte) UnreadableReason {
	mediaType, parameters, ok := cutMediaType(value)
	if !ok || containsASCII(value, "multipart/") || containsASCII(value, "message/") {
		return ReasonPartType
	}
	p.isTyped, p.isText = true, string(mediaType) == "text/plain" // in another case it is no text for aiohttp
	for len(parameters) > 0 {
		var next parameter
		if next, parameters, ok = cutParameter(parameters); !ok {
			return ReasonPartType
		}
		isHarmless := len(next.name) == 0 || equalASCII(next.name, "charset") && isUTF8(next.value)
		p.isText = p.isText && isHarmless
	}
	return ReasonNone
}
