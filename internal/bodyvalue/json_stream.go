package bodyvalue

import "bytes"

// stream finds the lines of a body, and the fields of server-sent events in them
// (https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream).
type stream struct {
	part    linePart
	field   string // of the line, if its name is one of those below
	name    int    // characters of the field's name that have passed
	afterCR bool   // the last line ended with CR: an LF at once belongs to it

	text   [maxLastText + 1]byte // what the field's value begins with
	length int
	last   bool // the event is the last one of its stream
}

// linePart is the part of a line of an event stream that comes next.
type linePart uint8

const (
	lineName  linePart = iota // of the field
	lineSpace                 // one that may follow the colon
	lineValue                 // of the field
	lineOther                 // is passed over
)

// The fields that are read: an event's data, and its type.
const (
	fieldData  = "data"
	fieldEvent = "event"
)

// maxLastText is the length of the longest value that isLast knows.
const maxLastText = len("response.incomplete")

// isLast reports whether the line that ends says that its event is the last one of the stream.
func (s *stream) isLast() bool {
	switch text := s.text[:s.length]; s.field {
	case fieldData:
		return string(text) == "[DONE]"
	case fieldEvent:
		switch string(text) {
		case "message_stop", "message-end", "response.completed", "response.incomplete", "response.failed":
			return true
		}
	}
	return false
}

// writeEvents takes a piece of an event stream. Each event's data is a document of its own; lines of data
// are joined by line breaks, which are space to it.
func (b *NumberReader) writeEvents(data []byte) {
	s := &b.stream
	lines := lineEnds{data: data}
	for i := 0; i < len(data); {
		if s.afterCR {
			s.afterCR = false
			if data[i] == '\n' {
				i++
				continue
			}
		}
		end := lines.next(i)
		b.writeField(data[i:end])
		if end == len(data) {
			return
		}
		b.endLine()
		s.afterCR = data[end] == '\r'
		i = end + 1
	}
}

// writeField takes a piece of a line, without its end.
func (b *NumberReader) writeField(data []byte) {
	s := &b.stream
	for i, c := range data {
		switch s.part {
		case lineValue:
			b.writeValue(data[i:])
			return
		case lineOther:
			return
		case lineSpace:
			if s.part = lineValue; c != ' ' {
				b.writeValue(data[i:])
				return
			}
		case lineName:
			if s.name == 0 {
				s.field = fieldData
				if c == fieldEvent[0] {
					s.field = fieldEvent
				}
			}
			switch {
			case s.name < len(s.field) && c == s.field[s.name]:
				s.name++
			case s.name == len(s.field) && c == ':':
				s.part = lineSpace
			default:
				s.part = lineOther
			}
		}
	}
}

// writeValue takes a piece of a field's value.
func (b *NumberReader) writeValue(data []byte) {
	s := &b.stream
	s.length += copy(s.text[s.length:], data)
	if s.field == fieldData {
		b.document.write(data)
	}
}

// endLine ends a line of an event stream. An empty one ends the event.
func (b *NumberReader) endLine() {
	s := &b.stream
	switch {
	case s.part == lineName && s.name == 0:
		b.commit()
		b.complete = b.complete || s.last
		s.last = false
	case s.part == lineValue || s.part == lineSpace:
		s.last = s.last || s.isLast()
		if s.field == fieldData {
			b.document.write([]byte("\n"))
		}
	}
	s.part, s.name, s.length = lineName, 0, 0
}

// writeLines takes a piece of a body with a document in each line.
func (b *NumberReader) writeLines(data []byte) {
	for {
		line, rest, ended := bytes.Cut(data, []byte("\n"))
		b.document.write(line)
		if !ended {
			return
		}
		b.commit()
		data = rest
	}
}

// lineEnds finds the ends of lines, each of which is LF, CR, or CR and LF. It looks at no byte twice, also
// where only one of the two occurs.
type lineEnds struct {
	data   []byte
	lf, cr int // of the next of each, if it is not passed; the length of data: none follows
	known  bool
}

// next returns where the line that begins at a place ends; the length of data: not in it.
func (l *lineEnds) next(from int) int {
	if !l.known || l.lf < from {
		l.lf = l.find('\n', from)
	}
	if !l.known || l.cr < from {
		l.cr = l.find('\r', from)
	}
	l.known = true
	return min(l.lf, l.cr)
}

func (l *lineEnds) find(c byte, from int) int {
	if n := bytes.IndexByte(l.data[from:], c); n >= 0 {
		return from + n
	}
	return len(l.data)
}
