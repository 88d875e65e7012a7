package bodyvalue

// maxLevels is how many objects and arrays may stand within one another: PHP's default, the lowest of parsers that are
// in use but Ruby's 100, which refuses what is deeper.
const maxLevels = 512

// JSONReader reads the values of one request's body. It takes nothing but one document of RFC 8259 in UTF-8, and tells a
// value only if every parser that reads the body at all must read this one. The body may come in pieces of any length.
// Its memory is that of the values on paths. It is not safe for concurrent use.
type JSONReader struct {
	plan   *JSONPlan
	state  state
	reason UnreadableReason // why the body is unreadable
	mark   int              // bytes of a byte order mark that have passed
	offset int              // bytes of the pieces before

	arrays [maxLevels / 64]uint64 // a bit for each open object or array: it is an array
	depth  int                    // how many are open
	led    int                    // how many of them, from the outermost one, are objects that paths lead through
	object int                    // the place of the innermost of those
	at     int                    // the place of the next value
	found  []finding              // by place

	batch  int64 // members of a batch that are calls
	member int   // the level of one that is none so far; 0: there is none, or calls are not counted

	text   text
	number number
	word   string // true, false or null
	passed int    // bytes of the word that have passed
	size   inputSize
}

// finding is what was found at a place.
type finding struct {
	content content
	isNamed bool             // the name has stood in its object, maybe in another case
	name    UnreadableReason // why the value is unreadable: other names in its object
	names   UnreadableReason // why the values within are: a name in this object that parsers read in different ways
	value   UnreadableReason // why the value is: itself
	text    string
	from    int // where a string, number or word stands in the body
	to      int
}

// content is the kind of what stands at a place. From [contentString] on it has a text.
type content uint8

const (
	contentNone content = iota
	contentNull
	contentObject
	contentArray
	contentString
	contentNumber
	contentWord
)

// NewReader returns the reader of a request's body.
func (p *JSONPlan) NewReader() *JSONReader {
	return &JSONReader{plan: p, found: make([]finding, max(1, len(p.places)))}
}

// readRequest reads a whole body.
func (p *JSONPlan) readRequest(body []byte) *JSONReader {
	r := p.NewReader()
	r.Write(body)
	r.End()
	return r
}

// Write takes the next piece of the body. It does not keep it.
func (r *JSONReader) Write(data []byte) {
	if r.state == broken {
		return
	}
	i := r.start(data)
	for i < len(data) && r.state != broken {
		switch r.state {
		case inKey, inString:
			i = r.readString(data, i)
		case inNumber:
			i = r.readNumber(data, i)
		case inWord:
			i = r.readWord(data, i)
		default:
			i = r.readTokens(data, i)
		}
	}
	r.offset += len(data)
}

// start refuses a byte order mark, which some parsers pass over. It returns where the document may begin.
func (r *JSONReader) start(data []byte) int {
	i := 0
	for i < len(data) && r.offset+i == r.mark && data[i] == byteOrderMarkUTF8[r.mark] {
		i++
		if r.mark++; r.mark == len(byteOrderMarkUTF8) {
			return r.fail(ReasonByteOrderMark)
		}
	}
	if r.mark > 0 && i < len(data) && r.state != broken {
		return r.fail(ReasonSyntax)
	}
	return i
}

// End ends the body. A number may end with it.
func (r *JSONReader) End() {
	if r.state == inNumber {
		r.endSplitNumber(r.offset)
	}
	if r.state != whole && r.state != broken {
		r.fail(ReasonSyntax)
	}
}

// Value returns the value of a path, by the number that [JSONPlan.AddPath] returned. Null and an object are absent
// values. A text is a string as it was meant, without escapes; true or false; or a number in its only form: digits, with
// a point where it is no whole number, without an exponent. 1, 1.0 and 1e0 are 1, and -0 is 0. The body must have ended.
func (r *JSONReader) Value(number int) Value {
	content, text, reason := r.read(number)
	switch {
	case reason != ReasonNone:
		return Unreadable(reason)
	case content < contentString:
		return Value{}
	}
	return New(text)
}

// read returns what a path has, and why that is unreadable. The text is that of a string, number or word.
func (r *JSONReader) read(number int) (content, string, UnreadableReason) {
	if r.reason != ReasonNone {
		return contentNone, "", r.reason
	}
	path := &r.plan.paths[number]
	if path.flat > 0 && r.found[path.flat].isNamed || path.bare > 0 && r.found[path.bare].isNamed && !r.found[path.places[0]].isNamed {
		return contentNone, "", ReasonFlat
	}
	f := &r.found[0]
	for _, id := range path.places {
		switch {
		case f.content == contentArray:
			return contentArray, "", ReasonArray
		case f.names != ReasonNone:
			return contentObject, "", f.names
		}
		if f = &r.found[id]; f.name != ReasonNone {
			return contentNone, "", f.name
		}
	}
	if f.content == contentArray {
		return contentArray, "", ReasonArray
	}
	return f.content, f.text, f.value
}

// isArray reports whether the document is an array.
func (r *JSONReader) isArray() bool {
	return r.reason == ReasonNone && r.found[0].content == contentArray
}

// span returns where the string or number stands that a name at the root has. There is none if ok is false, and if
// isNamed is false too, the name does not stand there at all.
func (r *JSONReader) span(number int) (from, to int, isNamed, ok bool) {
	f := &r.found[r.plan.paths[number].places[0]]
	ok = f.name == ReasonNone && r.found[0].names == ReasonNone && (f.content == contentString || f.content == contentNumber)
	return f.from, f.to, f.isNamed, ok
}

// fail makes the body unreadable. It returns a place behind all pieces.
func (r *JSONReader) fail(reason UnreadableReason) int {
	r.state, r.reason = broken, reason
	return 0
}

// readTokens takes what stands between values and names, up to where one of these is not complete.
func (r *JSONReader) readTokens(data []byte, i int) int {
	for i < len(data) && r.state <= whole {
		c := data[i]
		if c <= ' ' {
			if c != ' ' && c != '\n' && c != '\r' && c != '\t' {
				return r.fail(ReasonSyntax)
			}
			i++
			continue
		}
		switch r.state {
		case wantColon:
			if c != ':' {
				return r.fail(ReasonSyntax)
			}
			r.state = wantValue
			i++
		case wantNext:
			r.next(c)
			i++
		case wantFirstKey, wantKey:
			i = r.beginName(data, i)
		case wantFirstValue, wantValue:
			i = r.value(data, i)
		default:
			return r.fail(ReasonSyntax) // more behind the document
		}
	}
	return i
}

// next takes the character behind a member or an element.
func (r *JSONReader) next(c byte) {
	isArray := r.inArray()
	switch {
	case c == ',' && isArray:
		r.state = wantValue
	case c == ',':
		r.state = wantKey
	case c == ']' && isArray, c == '}' && !isArray:
		r.close()
	default:
		r.fail(ReasonSyntax)
	}
}

// inArray reports whether the innermost object or array is an array.
func (r *JSONReader) inArray() bool {
	level := uint(r.depth - 1)
	return r.arrays[level/64%uint(len(r.arrays))]>>(level%64)&1 != 0
}

// open begins an object or an array.
func (r *JSONReader) open(isArray bool) {
	if r.depth == maxLevels {
		r.fail(ReasonDepth)
		return
	}
	bit, content := uint64(1)<<(r.depth%64), contentObject
	r.state = wantFirstKey
	if r.arrays[r.depth/64] &^= bit; isArray {
		r.arrays[r.depth/64] |= bit
		r.state, content = wantFirstValue, contentArray
	}
	r.depth++
	r.size.open(isArray)
	if r.at == nowhere {
		if r.plan.calls && !isArray {
			r.beginMember()
		}
		return
	}
	r.found[r.at].content = content
	if !isArray && len(r.plan.places) > 0 && len(r.plan.places[r.at].children) > 0 {
		r.led, r.object = r.depth, r.at
	}
	r.at = nowhere
}

// close ends an object or an array.
func (r *JSONReader) close() {
	if r.depth == r.led {
		r.led--
		r.object = r.plan.places[r.object].parent
	}
	r.depth--
	r.size.close()
	r.endValue()
}

// endValue ends a value.
func (r *JSONReader) endValue() {
	if r.state = wantNext; r.depth == 0 {
		r.state = whole
	}
}

// value begins a value, or ends an empty array.
func (r *JSONReader) value(data []byte, i int) int {
	c := data[i]
	if r.at != nowhere {
		r.found[r.at].from = r.offset + i
	}
	switch {
	case c == '"':
		r.size.other()
		return r.beginString(data, i)
	case c == '{' || c == '[':
		r.open(c == '[')
		return i + 1
	case c == '-' || c-'0' <= 9:
		r.size.number()
		return r.beginNumber(data, i)
	case c == ']' && r.state == wantFirstValue:
		r.close()
		return i + 1
	}
	r.size.other()
	return r.beginWord(data, i)
}

// scalar ends a string, number or word, whose text is kept where a path ends.
func (r *JSONReader) scalar(content content, end int) (f *finding, isKept bool) {
	r.endValue()
	if r.at == nowhere {
		return nil, false
	}
	f = &r.found[r.at]
	f.content, f.to = content, end
	return f, r.keeps(content)
}

// keeps reports whether the text of the next value is kept.
func (r *JSONReader) keeps(content content) bool {
	if r.at == nowhere || len(r.plan.places) == 0 {
		return false
	}
	place := &r.plan.places[r.at]
	return place.strings || place.end && content != contentString
}
