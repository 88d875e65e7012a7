package bodyvalue

import (
	"bytes"
	"math"
	"unicode"
	"unicode/utf8"
)

// beginName begins the name of a member, or ends an empty object.
func (r *JSONReader) beginName(data []byte, i int) int {
	switch c := data[i]; {
	case c == '}' && r.state == wantFirstKey:
		r.close()
		return i + 1
	case c != '"':
		return r.fail(ReasonSyntax)
	}
	i++
	n, ascii := plainRun(data[i:])
	if i+n == len(data) || data[i+n] != '"' {
		r.state = inKey
		r.text.begin(r.plan.longest)
		r.text.isName = true
		return i
	}
	name := data[i : i+n]
	if !ascii && !utf8.Valid(name) {
		return r.fail(ReasonUTF8)
	}
	r.state, r.at = wantColon, nowhere
	switch r.depth {
	case r.led:
		longest := min(len(name), r.plan.longest)
		r.at = r.nameOnPath(name[:longest], ascii, longest < len(name), hasOuterSpace(name))
	case r.member:
		r.wholeNameOfMember(name, ascii)
	}
	return i + n + 1
}

// endName ends a name that has escapes or came in pieces.
func (r *JSONReader) endName() {
	reason := r.text.end()
	r.state, r.at = wantColon, nowhere
	isOnPath := r.depth == r.led
	if !isOnPath && r.depth != r.member {
		return
	}
	name, isCut := r.text.kept, r.text.length > len(r.text.kept)
	isSpaced := unicode.IsSpace(r.text.last) || startsWithSpace(name)
	switch {
	case isOnPath && reason != ReasonNone:
		r.found[r.object].names = reason
	case isOnPath:
		r.at = r.nameOnPath(name, false, isCut, isSpaced)
	case reason != ReasonNone:
		r.countCall() // for some parsers the name may be one of a call
	default:
		r.nameOfMember(name, false, isCut, isSpaced)
	}
}

// nameOnPath returns the place of a name in an object that paths lead through. A long name is cut. White space around a name is
// passed over by some, so that a name that is cut may be any.
func (r *JSONReader) nameOnPath(name []byte, ascii, isCut, isSpaced bool) (at int) {
	object, bare := &r.plan.places[r.object], name
	switch at = nowhere; {
	case isSpaced && isCut:
		r.found[r.object].names = ReasonCase
		return nowhere
	case isSpaced:
		bare = bytes.TrimFunc(name, unicode.IsSpace)
	}
	spelled := spellingOf(bare, ascii, isCut)
	if !object.mayHave(&spelled) {
		return nowhere
	}
	var space [256]byte
	if spelled.joints > 0 {
		spelled.joined = appendJoined(space[:0], bare)
	}
	for i := range object.children {
		c := &object.children[i]
		if !spelled.mayBe(c) {
			continue
		}
		child, f := &r.plan.places[c.id], &r.found[c.id]
		switch {
		case !child.isNamed(&spelled):
			continue
		case f.isNamed:
			f.name = ReasonRepeated
		case string(name) != string(child.name):
			f.name = ReasonCase
		default:
			at = c.id
		}
		f.isNamed = true
	}
	return at
}

// hasOuterSpace reports whether a name has white space at an end.
func hasOuterSpace(name []byte) bool {
	if n := len(name); n == 0 || isInner(name[0]) && isInner(name[n-1]) {
		return false
	}
	last, _ := utf8.DecodeLastRune(name)
	return startsWithSpace(name) || unicode.IsSpace(last)
}

// isInner reports whether a byte is of ASCII and no white space, as most bytes of names are.
func isInner(c byte) bool { return c > ' ' && c < utf8.RuneSelf }

func startsWithSpace(name []byte) bool {
	first, _ := utf8.DecodeRune(name)
	return unicode.IsSpace(first)
}

// beginString begins a string that is a value.
func (r *JSONReader) beginString(data []byte, i int) int {
	i++
	n, ascii := plainRun(data[i:])
	if i+n == len(data) || data[i+n] != '"' {
		r.state = inString
		limit := 0
		if r.keeps(contentString) {
			limit = math.MaxInt
		}
		r.text.begin(limit)
		return i
	}
	run := data[i : i+n]
	if !ascii && !utf8.Valid(run) {
		return r.fail(ReasonUTF8)
	}
	r.size.string(n, n > encodedLength && isEncoded(run[:encodedLength]))
	if f, isKept := r.scalar(contentString, r.offset+i+n+1); isKept {
		f.text = string(run)
	}
	return i + n + 1
}

// endString ends a value that has escapes or came in pieces.
func (r *JSONReader) endString(end int) {
	reason := r.text.end()
	r.size.string(r.text.length, r.text.isEncoded)
	f, isKept := r.scalar(contentString, end)
	if f != nil {
		f.value = reason
	}
	if isKept {
		f.text = string(r.text.kept)
	}
}

// readString takes a piece of a string that has escapes or comes in pieces.
func (r *JSONReader) readString(data []byte, i int) int {
	t := &r.text
	for i < len(data) {
		if t.escape != escapeNone {
			if !t.escaped(data[i]) {
				return r.fail(ReasonSyntax)
			}
			i++
			continue
		}
		n, ascii := plainRun(data[i:])
		switch run := data[i : i+n]; {
		case n == 0:
		case ascii && t.isBetween():
			t.add(run)
		case !t.plain(run, ascii):
			return r.fail(ReasonUTF8)
		}
		if i += n; i == len(data) {
			return i
		}
		switch c := data[i]; {
		case t.isCut():
			return r.fail(ReasonUTF8)
		case c == '"' && r.state == inKey:
			r.endName()
			return i + 1
		case c == '"':
			r.endString(r.offset + i + 1)
			return i + 1
		case c != '\\':
			return r.fail(ReasonSyntax)
		}
		if n = t.wholeEscape(data[i:]); n == 0 {
			n, t.escape = 1, escapeLetter
		}
		i += n
	}
	return i
}

// beginNumber begins a number.
func (r *JSONReader) beginNumber(data []byte, i int) int {
	n := numberEnd(data[i:])
	switch {
	case n < 0:
		return r.fail(ReasonSyntax)
	case n == 0:
		r.state, r.number = inNumber, number{}
		r.text.begin(maxNumber + 1)
		return i
	}
	r.endNumber(data[i:i+n], r.offset+i+n)
	return i + n
}

// endNumber ends a number.
func (r *JSONReader) endNumber(raw []byte, end int) {
	f, isKept := r.scalar(contentNumber, end)
	if !isKept {
		return
	}
	text, ok := numberText(raw)
	if !ok {
		f.value = ReasonNumber
		return
	}
	f.text = text
}

// readNumber takes a piece of a number that comes in pieces.
func (r *JSONReader) readNumber(data []byte, i int) int {
	from := i
	for i < len(data) && r.number.next(data[i]) {
		i++
	}
	r.text.add(data[from:i])
	if i < len(data) {
		r.endSplitNumber(r.offset + i)
	}
	return i
}

// endSplitNumber ends a number that came in pieces.
func (r *JSONReader) endSplitNumber(end int) {
	if !r.number.complete() {
		r.fail(ReasonSyntax)
		return
	}
	r.endNumber(r.text.kept, end)
}

// The words of JSON.
const (
	wordTrue  = "true"
	wordFalse = "false"
	wordNull  = "null"
)

// beginWord begins true, false or null.
func (r *JSONReader) beginWord(data []byte, i int) int {
	switch data[i] {
	case wordTrue[0]:
		r.word = wordTrue
	case wordFalse[0]:
		r.word = wordFalse
	case wordNull[0]:
		r.word = wordNull
	default:
		return r.fail(ReasonSyntax)
	}
	r.state, r.passed = inWord, 0
	return r.readWord(data, i)
}

// readWord takes a piece of a word.
func (r *JSONReader) readWord(data []byte, i int) int {
	rest := r.word[r.passed:]
	n := min(len(rest), len(data)-i)
	if string(data[i:i+n]) != rest[:n] {
		return r.fail(ReasonSyntax)
	}
	if r.passed += n; r.passed == len(r.word) {
		r.endWord(r.offset + i + n)
	}
	return i + n
}

// endWord ends a word.
func (r *JSONReader) endWord(end int) {
	content := contentWord
	if r.word == wordNull {
		content = contentNull
	}
	if f, isKept := r.scalar(content, end); isKept {
		f.text = r.word
	}
}
