package bodyvalue

import "bytes"

// state says what a document expects next.
type state uint8

const (
	wantValue      state = iota
	wantFirstValue       // of an array, or its end
	wantFirstKey         // of an object, or its end
	wantKey              // behind a comma
	wantColon
	wantNext  // a comma, or the end of the object or array
	whole     // the document is complete
	inKey     // of an object on a path
	inString  // that is a value
	inSkipped // in a value that no path leads into
	inNumber  // on a path or beside one
	inWord    // in true, false or null
	broken    // it is no JSON
)

// document reads one JSON document. What it has found stands in values until the document is complete.
type document struct {
	plan    *NumberPlan
	state   state
	touched bool // a value stands in values

	frames  [maxNames + 1]frame // objects and arrays that paths lead through, from the outermost one
	open    int                 // how many of them
	at      *node               // of the next value; nil: no path leads there
	skipper skipper
	number  number
	word    string // what must still follow of true, false or null
	key     key
	values  []value // by slot
}

// frame is an object or array that a path leads through.
type frame struct {
	node  *node
	array bool
	index int // of the element that is next or being read
}

// value is the number that was last found at a path.
type value struct {
	decimal
	found bool
	bad   bool // out of range
}

// begin prepares for the next document.
func (d *document) begin() {
	d.state, d.at, d.open = wantValue, &d.plan.root, 0
	d.skipper = skipper{}
	if d.touched {
		clear(d.values)
		d.touched = false
	}
}

// end ends the document and reports whether it was complete. A number may end with it.
func (d *document) end() bool {
	if d.state == inNumber {
		d.endNumber()
	}
	return d.state == whole
}

// write takes the next piece of the document.
func (d *document) write(data []byte) {
	for len(data) > 0 && d.state != broken {
		switch d.state {
		case inSkipped:
			data = data[d.skip(data):]
		case inKey:
			data = data[d.readKey(data):]
		case inNumber:
			data = data[d.readNumber(data):]
		case inWord:
			if data[0] != d.word[0] {
				d.state = broken
				return
			}
			data = data[1:]
			if d.word = d.word[1:]; d.word == "" {
				d.endValue()
			}
		default:
			c := data[0]
			data = data[1:]
			if c > ' ' {
				d.token(c)
			} else if c != ' ' && c != '\n' && c != '\r' && c != '\t' {
				d.state = broken
			}
		}
	}
}

// token takes a character that is no space, between values.
func (d *document) token(c byte) {
	switch d.state {
	case wantColon:
		if d.state = wantValue; c != ':' {
			d.state = broken
		}
	case wantFirstKey, wantKey:
		switch {
		case c == '"':
			d.state = inKey
			d.key.begin()
		case c == '}' && d.state == wantFirstKey:
			d.close()
		default:
			d.state = broken
		}
	case wantNext:
		d.next(c)
	case wantFirstValue:
		if c == ']' {
			d.close()
			return
		}
		d.value(c)
	case wantValue:
		d.value(c)
	default: // more behind the document
		d.state = broken
	}
}

// next takes the character behind a member or an element.
func (d *document) next(c byte) {
	f := &d.frames[d.open-1]
	switch {
	case c == ',' && !f.array:
		d.state = wantKey
	case c == ',':
		if f.index++; f.node.hasElement(f.index) {
			d.state, d.at = wantValue, f.node.element(f.index)
			return
		}
		// No path leads into the rest of the array.
		d.open--
		d.state, d.skipper = inSkipped, skipper{depth: 1}
	case c == '}' && !f.array, c == ']' && f.array:
		d.close()
	default:
		d.state = broken
	}
}

// close ends an object or array on a path.
func (d *document) close() {
	d.open--
	d.endValue()
}

// endValue ends a value.
func (d *document) endValue() {
	if d.state = wantNext; d.open == 0 {
		d.state = whole
	}
}

// value begins a value.
func (d *document) value(c byte) {
	leads := d.at != nil && len(d.at.children) > 0
	switch {
	case c == '{' && leads:
		d.frames[d.open] = frame{node: d.at}
		d.open++
		d.state = wantFirstKey
	case c == '[' && leads && d.at.hasElement(0):
		d.frames[d.open] = frame{node: d.at, array: true}
		d.open++
		d.state, d.at = wantFirstValue, d.at.element(0)
	case c == '{' || c == '[':
		d.state, d.skipper = inSkipped, skipper{depth: 1}
	case c == '"':
		d.state, d.skipper = inSkipped, skipper{inString: true}
	case c == '-' || c-'0' <= 9:
		d.state, d.number = inNumber, number{}
		d.number.next(c)
	case c == 't':
		d.state, d.word = inWord, "true"[1:]
	case c == 'f':
		d.state, d.word = inWord, "false"[1:]
	case c == 'n':
		d.state, d.word = inWord, "null"[1:]
	default:
		d.state = broken
	}
}

// skip passes over a value that no path leads into.
func (d *document) skip(data []byte) (n int) {
	if d.skipper.depth > 0 {
		n = d.skipper.run(data)
	} else {
		n = d.skipper.string(data)
	}
	if d.skipper.depth == 0 && !d.skipper.inString {
		d.endValue()
	}
	return n
}

func (d *document) readNumber(data []byte) int {
	for i, c := range data {
		if !d.number.next(c) {
			d.endNumber()
			return i
		}
	}
	return len(data)
}

func (d *document) endNumber() {
	if !d.number.complete() {
		d.state = broken
		return
	}
	if at := d.at; at != nil {
		if at.slot >= 0 {
			d.keep(at.slot)
		}
		if at.tokens >= 0 {
			d.keep(at.tokens)
		}
	}
	d.endValue()
}

// keep keeps the number in a slot.
func (d *document) keep(slot int) {
	n, ok := d.number.decimal()
	d.values[slot] = value{decimal: n, found: true, bad: !ok}
	d.touched = true
}

// readKey reads the name of a member.
func (d *document) readKey(data []byte) int {
	if len(d.key.raw) == 0 { // most keys stand in one piece, without a backslash
		if n := bytes.IndexByte(data[:min(len(data), maxName+1)], '"'); n >= 0 && bytes.IndexByte(data[:n], '\\') < 0 {
			d.endKey(d.frames[d.open-1].node.child(data[:n]))
			return n + 1
		}
	}
	for i, c := range data {
		if d.key.next(c) {
			d.endKey(d.key.find(d.frames[d.open-1].node))
			return i + 1
		}
	}
	return len(data)
}

func (d *document) endKey(at *node) {
	d.state, d.at = wantColon, at
}
