package bodyvalue

import (
	"errors"
	"net/http"
	"strings"
)

// NumberReader reads the numbers of one body. It is not safe for concurrent use.
type NumberReader struct {
	plan     *NumberPlan
	refused  error // why nothing is read; nil: it is
	form     form
	document document
	last     []value // of complete documents, by slot
	stream   stream
	events   int64 // or lines, that were JSON
	mark     int   // bytes of a byte order mark that have passed
	started  bool  // no mark may follow any more
	complete bool  // it says so itself, see Complete
	ended    bool

	headerTokens int64 // see HeaderTokens
	headerErr    error
}

// form is how documents stand in a body.
type form uint8

const (
	formOne    form = iota // one document
	formEvents             // the data of server-sent events
	formLines              // one document a line
)

// forms are the content types that are read. Those that end in +json have one document.
var forms = []struct {
	contentType string
	form        form
}{
	{"application/json", formOne},
	{"text/event-stream", formEvents},
	{"application/x-ndjson", formLines},
	{"application/ndjson", formLines},
	{"application/jsonl", formLines},
	{"application/x-jsonlines", formLines},
}

// NewReader returns the reader of a body with a header.
func (p *NumberPlan) NewReader(header http.Header) *NumberReader {
	b := &NumberReader{plan: p}
	if len(p.tokens) > 0 {
		b.headerTokens, b.headerErr = HeaderTokens(header)
	}
	if b.form, b.refused = formOf(header); b.refused != nil {
		return b
	}
	values := make([]value, 2*p.slots)
	b.last = values[:p.slots:p.slots]
	b.document.plan, b.document.values = p, values[p.slots:]
	b.document.begin()
	return b
}

// formOf returns the form of a body with a header.
func formOf(header http.Header) (form, error) {
	for _, encodings := range header["Content-Encoding"] {
		for encoding := range strings.SplitSeq(encodings, ",") {
			if encoding = strings.TrimSpace(encoding); encoding != "" && !strings.EqualFold(encoding, "identity") {
				return 0, errEncoded
			}
		}
	}
	contentType, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	contentType = strings.TrimSpace(contentType)
	for _, known := range forms {
		if strings.EqualFold(contentType, known.contentType) {
			return known.form, nil
		}
	}
	const prefix, suffix = "application/", "+json"
	if n := len(contentType) - len(suffix); n > len(prefix) && strings.EqualFold(contentType[:len(prefix)], prefix) &&
		strings.EqualFold(contentType[n:], suffix) {
		return formOne, nil
	}
	return 0, errType
}

// Write takes the next piece of the body. It does not keep it.
func (b *NumberReader) Write(data []byte) {
	if b.refused != nil {
		return
	}
	if !b.started {
		data = b.start(data)
	}
	switch b.form {
	case formEvents:
		b.writeEvents(data)
	case formLines:
		b.writeLines(data)
	default:
		b.document.write(data)
	}
}

// byteOrderMarkUTF8 is [byteOrderMark] as it may stand before a body.
const byteOrderMarkUTF8 = string(byteOrderMark)

// start passes over a byte order mark. A part of one spoils what it stands before.
func (b *NumberReader) start(data []byte) []byte {
	for len(data) > 0 {
		if data[0] != byteOrderMarkUTF8[b.mark] {
			if b.started = true; b.mark > 0 {
				b.document.state, b.stream.part = broken, lineOther
			}
			return data
		}
		data = data[1:]
		if b.mark++; b.mark == len(byteOrderMarkUTF8) {
			b.started = true
			return data
		}
	}
	return data
}

// commit ends a document. What it has found counts if it was complete. The next one may begin.
func (b *NumberReader) commit() {
	if b.document.end() {
		b.events++
		b.keep()
	}
	b.document.begin()
}

// keep keeps the numbers of a complete document.
func (b *NumberReader) keep() {
	if !b.document.touched {
		return
	}
	for i, value := range b.document.values {
		if value.found {
			b.last[i] = value
		}
	}
}

// End ends the body. A last event or line needs no line break.
func (b *NumberReader) End() {
	if b.refused == nil && !b.ended {
		b.ended = true
		if b.form == formOne {
			b.complete = b.document.end()
		}
		b.commit()
	}
}

// Complete reports whether the body says itself that nothing is missing: it is a document that was read to its
// end, or a stream whose last event has ended, as those of known APIs do. The body must have ended.
func (b *NumberReader) Complete() bool { return b.complete }

// Sum returns the sum with a number that [NumberPlan.Add] returned, rounded up, or one of the reasons above. The
// function returns the factor that comes from a placeholder, by its place in [Sum.Placeholders], or why
// there is none. A term with a minus is 0 if its number is missing, and so is a sum below that. The body must
// have ended.
func (b *NumberReader) Sum(number int, factor func(placeholder int) (Factor, error)) (int64, error) {
	if err := b.unread(); err != nil {
		return 0, err
	}
	var space [maxPaths]addend
	addends := space[:0]
	terms := b.plan.sums[number]
	for i := range terms {
		term := &terms[i]
		n, err := b.first(term.slots)
		if term.minus && errors.Is(err, ErrNoNumber) {
			continue
		}
		by := term.factor
		if err == nil && term.placeholder > 0 {
			by, err = factor(term.placeholder - 1)
		}
		if err != nil {
			return 0, err
		}
		addends = append(addends, addend{n, by, term.minus})
	}
	return sumOf(addends)
}

// unread returns why a body has no numbers; nil: it may have some.
func (b *NumberReader) unread() error {
	if b.refused == nil && b.form == formOne && !b.complete {
		return ErrInvalidJSON
	}
	return b.refused
}

// first returns the first number that was found.
func (b *NumberReader) first(slots []int) (decimal, error) {
	for _, slot := range slots {
		switch value := &b.last[slot]; {
		case value.bad:
			return decimal{}, errRange
		case value.found:
			return value.decimal, nil
		}
	}
	return decimal{}, ErrNoNumber
}
