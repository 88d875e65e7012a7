package bodyvalue

import (
	"bytes"
	"unicode/utf8"
)

// maxParts is how many parts a form may have. Parsers that are in use stop between 1,000 and unlimited, without an error
// or with one.
const maxParts = 1000

// maxHead is how long the head of a part may be, in bytes. Servers let a whole request have such a head.
const maxHead = 8 << 10

const (
	lineEnd      = "\r\n"
	delimiterTip = "--" // before the boundary in each delimiter, and behind the last one
)

// readMultipart scans multipart/form-data (RFC 7578), as browsers and libraries write it. Parsers differ in what they
// take for a delimiter: lines that only begin with one, that end with blanks or with LF, even the boundary within a
// line. So the boundary may stand nowhere but in delimiters, each between line ends of its own.
func (f *fields) readMultipart(body []byte, boundary string) UnreadableReason {
	var space [maxBoundary]byte
	mark := append(space[:0], boundary...)
	at := bytes.Index(body, mark)
	if at != len(delimiterTip) || !bytes.HasPrefix(body, []byte(delimiterTip)) {
		return ReasonDelimiter
	}
	for parts := 0; ; parts++ {
		next := bytes.Index(body[at+1:], mark)
		behind := body[at+len(mark):]
		switch {
		case next < 0 && isEnd(behind):
			return ReasonNone
		case next < 0 || !bytes.HasPrefix(behind, []byte(lineEnd)):
			return ReasonDelimiter
		case parts == maxParts:
			return ReasonParts
		}
		begin, end := at+len(mark)+len(lineEnd), at+1+next-len(lineEnd+delimiterTip)
		if end < begin || string(body[end:at+1+next]) != lineEnd+delimiterTip {
			return ReasonDelimiter
		}
		if reason := f.addPart(body[begin:end], mark); reason != ReasonNone {
			return reason
		}
		at += 1 + next
	}
}

// isEnd reports whether what stands behind a boundary ends the form.
func isEnd(text []byte) bool {
	return string(text) == delimiterTip || string(text) == delimiterTip+lineEnd
}

// addPart adds a part, which is its head, an empty line, and its data.
func (f *fields) addPart(text, boundary []byte) UnreadableReason {
	const behindHead = lineEnd + lineEnd
	n := bytes.Index(text[:min(len(text), maxHead+len(behindHead))], []byte(behindHead))
	if n < 0 {
		return ReasonHead
	}
	lines, data := text[:n], text[n+len(behindHead):]
	p := formField{length: len(data)}
	for more := true; more; {
		var line []byte
		line, lines, more = bytes.Cut(lines, []byte(lineEnd))
		if reason := p.readLine(line); reason != ReasonNone {
			return reason
		}
	}
	switch {
	case !p.has[fieldDisposition]:
		return ReasonDisposition
	case !p.isFile && p.isTyped && !p.isText:
		return ReasonPartType
	case !p.isFile && !utf8.Valid(data):
		return ReasonUTF8
	}
	switch {
	case p.isFile:
		return f.add(p.name, nil, ReasonFile)
	case endsInDelimiter(data, boundary):
		return f.add(p.name, nil, ReasonDelimiter)
	}
	return f.add(p.name, data, ReasonNone)
}

// endsInDelimiter reports whether the last line of a part's data is the begin of a delimiter: behind one POCO takes the line
// end, which belongs to the delimiter that follows, for data.
func endsInDelimiter(data, boundary []byte) bool {
	const before = "\n" + delimiterTip // LF alone ends a line for some
	last := data[max(0, len(data)-len(before)-len(boundary)):]
	i := bytes.LastIndex(last, []byte(before))
	return i >= 0 && bytes.HasPrefix(boundary, last[i+len(before):])
}
