package accesslog

import (
	"errors"
	"fmt"
	"strings"
)

// template is a format whose lines are texts and fields by turns. It divides lines at quotes and tabs, which are escaped in
// what clients write, so that no text of a client becomes another field.
type template struct {
	called   string
	segments []segment
	open     bool // more may follow
}

// segment is a part of a line between two quotes or tabs.
type segment struct {
	begin  string // before the first field
	pieces []piece
	raw    int  // the piece that may hold anything; none without one
	ends   byte // the quote or tab behind it; 0 for the end of the line
}

// piece is a field and the text behind it.
type piece struct {
	field
	after string
}

// maxPieces bounds the pieces of a template.
const maxPieces = 200

// newTemplate makes a template of fields, with the texts before each and behind the last.
func newTemplate(called string, texts []string, fields []field) (*template, error) {
	if len(fields) > maxPieces {
		return nil, fmt.Errorf("more than %d fields", maxPieces)
	}
	t, current := &template{called: called}, segment{raw: none}
	for i := range texts {
		text := texts[i]
		for {
			at := strings.IndexAny(text, "\"\t")
			if at < 0 {
				break
			}
			current.add(text[:at])
			current.ends = text[at]
			t.segments = append(t.segments, current)
			current, text = segment{raw: none}, text[at+1:]
		}
		current.add(text)
		if i < len(fields) {
			current.pieces = append(current.pieces, piece{field: fields[i]})
		}
	}
	t.segments = append(t.segments, current)
	err := t.check()
	return t, err
}

// add adds a text behind the last field.
func (s *segment) add(text string) {
	if len(s.pieces) == 0 {
		s.begin += text
		return
	}
	s.pieces[len(s.pieces)-1].after += text
}

// check finds the piece of each segment that may hold anything, and reports what no line could be divided by.
func (t *template) check() error {
	roles := map[role]bool{}
	for i := range t.segments {
		s := &t.segments[i]
		for j := range s.pieces {
			p := &s.pieces[j]
			roles[p.role] = true
			if j+1 < len(s.pieces) && p.after == "" {
				return errors.New("nothing stands between two fields, so that no line can be divided there")
			}
			if p.raw && s.raw != none {
				return errors.New("two fields that clients write stand without quotes, so that a client could write what passes as a field between them: put quotes around one of the two")
			}
			if p.raw {
				s.raw = j
			}
		}
	}
	switch {
	case !roles[timeRole]:
		return errors.New("no time of requests")
	case !roles[requestRole] && !roles[uriRole] && !roles[pathRole]:
		return errors.New("no URI of requests")
	case !roles[requestRole] && !roles[methodRole]:
		return errors.New("no method of requests")
	}
	return nil
}

// otherTemplate is the fault of a line that a template does not fit.
var otherTemplate = malformed("not in the format of --format, or the file's first lines")

// read reads a line into an empty entry.
func (t *template) read(line string, e *Entry, times *jsonTimes) fault {
	var v values
	for i := range t.segments {
		s := &t.segments[i]
		text := line
		if s.ends != 0 {
			end := endOf(line, s.ends)
			if end < 0 && !t.cutOff(i) {
				return otherTemplate
			}
			if end < 0 {
				end = len(line)
			}
			text, line = line[:end], line[min(end+1, len(line)):]
		}
		if !s.read(text, t.open && i == len(t.segments)-1, e, &v, times) {
			return otherTemplate
		}
	}
	return v.finish(e)
}

// cutOff reports whether a line that ends in a segment has all that matters but the end of its request, as a server may cut
// long lines.
func (t *template) cutOff(segment int) bool {
	pieces := t.segments[segment].pieces
	return t.open && len(pieces) == 1 && pieces[0].role == requestRole && segment == len(t.segments)-2
}

// endOf returns the place of a quote or tab; a quote behind a backslash does not count.
func endOf(text string, end byte) int {
	if end != '"' {
		return strings.IndexByte(text, end)
	}
	for at := 0; at < len(text); at++ {
		next := strings.IndexAny(text[at:], `"\`)
		if next < 0 {
			return none
		}
		if at += next; text[at] == '"' {
			return at
		}
		at++ // what is behind the backslash
	}
	return none
}

// read reads the fields of a segment: those before the one that may hold anything from the left, those behind it from the
// right.
func (s *segment) read(text string, open bool, e *Entry, v *values, times *jsonTimes) bool {
	text, found := strings.CutPrefix(text, s.begin)
	if !found {
		return false
	}
	first, last := 0, len(s.pieces)
	for ; first < len(s.pieces) && first != s.raw; first++ {
		p := &s.pieces[first]
		value, rest, ok := p.cutLeft(text, first == last-1, open)
		if !ok || !p.set(value, e, v, times) {
			return false
		}
		text = rest
	}
	if s.raw == none {
		return text == "" || open
	}
	for last--; last > s.raw; last-- {
		p := &s.pieces[last]
		value, rest, ok := p.cutRight(text, s.pieces[last-1].after)
		if !ok || !p.set(value, e, v, times) {
			return false
		}
		text = rest
	}
	p := &s.pieces[s.raw]
	value, found := strings.CutSuffix(text, p.after)
	if !p.plain {
		value = unescape(value)
	}
	return found && p.set(value, e, v, times)
}

// cutLeft cuts the value of a piece and the text behind it from the left.
func (p *piece) cutLeft(text string, last, open bool) (value, rest string, ok bool) {
	text = strings.TrimLeft(text, " ")
	switch {
	case p.after != "":
		from := 0
		for range strings.Count(p.layout, " ") { // blanks of a time
			from += strings.IndexByte(text[from:], ' ') + 1
		}
		at := strings.Index(text[from:], p.after)
		if at < 0 {
			return "", "", false
		}
		return text[:from+at], text[from+at+len(p.after):], true
	case last && open:
		value, rest, _ = strings.Cut(text, " ")
		return value, rest, true
	}
	return text, "", !strings.Contains(text, " ") || p.role == timeRole
}

// cutRight cuts the value of a piece and the text behind it from the right: the value begins behind a text, which is left.
func (p *piece) cutRight(text, before string) (value, rest string, ok bool) {
	if text, ok = strings.CutSuffix(text, p.after); !ok {
		return "", "", false
	}
	at := strings.LastIndex(text, before)
	if at < 0 {
		return "", "", false
	}
	at += len(before)
	return text[at:], text[:at], true
}

// templateReader reads the lines of one file by a template.
type templateReader struct {
	*template

	times jsonTimes
}

func (r *templateReader) recognizes(line string) bool {
	var e Entry
	why := r.template.read(line, &e, &r.times)
	return why == noFault || why == emptyRequest
}

func (r *templateReader) read(line string, e *Entry) (name string, why fault) {
	return r.called, r.template.read(line, e, &r.times)
}

// readerOfTemplate returns what makes readers of a template.
func readerOfTemplate(t *template) func(h hints) lineReader {
	return func(h hints) lineReader { return &templateReader{template: t, times: newJSONTimes(h.timeLayouts)} }
}

// templateFormat makes a format of a template in which variables stand for fields. More may follow in its lines if it is
// open. What reports call it names the program first.
func templateFormat(name, program, called, text string, fields map[string]field, open bool) format {
	t, err := parseVariables(called, text, fields)
	if err != nil {
		panic(called + ": " + err.Error())
	}
	t.open = open
	return format{name: name, program: program, newReader: readerOfTemplate(t)}
}
