// Package formbody decides which value a field of a request's form has. A value counts only if every parser that reads
// the body at all must read this one; where parsers that are in use read different ones, there is none.
//
// The package also decides of a request's header which kind of body follows.
package formbody

import "github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"

// Plan is the names that are asked of forms. It is compiled once and used by many requests at a time.
type Plan struct {
	names  []Name
	begins [256]bool // by letters and digits of ASCII: a field without a point conflicts with a name only if it begins so
}

// Add adds a name and returns its number, from 0.
func (p *Plan) Add(name Name) int {
	p.names = append(p.names, name)
	for c := range p.begins {
		p.begins[c] = p.begins[c] || name.mayBegin(byte(c)) || name.ofModel().mayBegin(byte(c))
	}
	return len(p.names) - 1
}

// Read returns the values of the names, by the numbers that [Plan.Add] returned. The body is complete, and is not kept.
// A body that is no form is unreadable. What the request's query has to say is for those who ask: see [Name.InQuery].
func (p *Plan) Read(t Type, body []byte) []bodyvalue.Value {
	values := make([]bodyvalue.Value, len(p.names))
	var few [4]finding // most plans have no more
	f := fields{plan: p, found: few[:]}
	if len(p.names) > len(few) {
		f.found = make([]finding, len(p.names))
	}
	if reason := f.read(t, body); reason != bodyvalue.ReasonNone {
		for i := range values {
			values[i] = bodyvalue.Unreadable(reason)
		}
		return values
	}
	for i := range values {
		values[i] = f.found[i].value(t.format)
	}
	return values
}

// fields finds the fields of one form that the names conflict with.
type fields struct {
	plan    *Plan
	found   []finding // by name
	scratch []byte    // a name without its escapes
}

// finding is what a name was compared with.
type finding struct {
	first    []byte           // the value of the first field, as it stands in the body
	match    match            // how the first field's name compares
	repeated bool             // there is a second field
	bare     bool             // there is a field of the name without its first element
	reason   bodyvalue.Reason // why the first one has no value
}

// read scans a form. It returns why the form as a whole is unreadable.
func (f *fields) read(t Type, body []byte) bodyvalue.Reason {
	switch t.format {
	case formatURLEncoded:
		return f.readURLEncoded(body)
	case formatMultipart:
		return f.readMultipart(body, t.boundary)
	case FormatJSON:
		return bodyvalue.ReasonType
	default:
		return t.Reason()
	}
}

// charsetField is the name of a field that tells some parsers the charset of all others (HTML, section 4.10.21.5).
const charsetField = "_charset_"

// differs reports whether the first byte of a field shows that no name conflicts with it, as of most fields. The field's
// value may stand behind "=".
func (f *fields) differs(field []byte) bool {
	return len(field) > 0 && isAlphanumeric(field[0]) && !f.plan.begins[field[0]] && !hasPoint(field)
}

// add compares a field with all names. The field's name has no escapes any more. A reason is why its value is unreadable.
func (f *fields) add(name, value []byte, reason bodyvalue.Reason) bodyvalue.Reason {
	if len(name) > 0 && name[0] == charsetField[0] && foldsTo(name, charsetField) {
		return bodyvalue.ReasonCharsetField
	}
	if f.differs(name) {
		return bodyvalue.ReasonNone
	}
	member := memberOf(name)
	for i := range f.plan.names {
		match, found := f.plan.names[i].compare(name), &f.found[i]
		switch {
		case match != matchNone:
		case f.plan.names[i].isMember(member):
			match = matchPrefix
		default:
			found.bare = found.bare || f.plan.names[i].member != noMatch && f.plan.names[i].ofModel().compare(name) == matchEqual
			continue
		}
		if found.match != matchNone {
			found.repeated = true
			continue
		}
		found.first, found.match, found.reason = value, match, reason
	}
	return bodyvalue.ReasonNone
}

// value returns what was found as a value.
func (f *finding) value(format Format) bodyvalue.Value {
	switch {
	case f.repeated:
		return bodyvalue.Unreadable(bodyvalue.ReasonConflict)
	case f.match == matchNone && !f.bare:
		return bodyvalue.Value{}
	case f.match != matchEqual:
		return bodyvalue.Unreadable(bodyvalue.ReasonPrefix)
	case f.reason != bodyvalue.ReasonNone:
		return bodyvalue.Unreadable(f.reason)
	case format == formatURLEncoded:
		return bodyvalue.New(decode(f.first))
	default:
		return bodyvalue.New(string(f.first))
	}
}
