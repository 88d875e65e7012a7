package bodyvalue

// FormPlan is the names that are asked of forms. It is compiled once and used by many requests at a time.
type FormPlan struct {
	names  []FieldName
	begins [256]bool // by letters and digits of ASCII: a field without a point conflicts with a name only if it begins so
}

// Add adds a name and returns its number, from 0.
func (p *FormPlan) Add(name FieldName) int {
	p.names = append(p.names, name)
	for c := range p.begins {
		p.begins[c] = p.begins[c] || name.mayBegin(byte(c)) || name.ofModel().mayBegin(byte(c))
	}
	return len(p.names) - 1
}

// Read returns the values of the names, by the numbers that [FormPlan.Add] returned. The body is complete, and is not kept.
// A body that is no form is unreadable. What the request's query has to say is for those who ask: see [FieldName.InQuery].
func (p *FormPlan) Read(t ContentType, body []byte) []Value {
	values := make([]Value, len(p.names))
	var few [4]fieldFinding // most plans have no more
	f := fields{plan: p, found: few[:]}
	if len(p.names) > len(few) {
		f.found = make([]fieldFinding, len(p.names))
	}
	if reason := f.read(t, body); reason != ReasonNone {
		for i := range values {
			values[i] = Unreadable(reason)
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
	plan    *FormPlan
	found   []fieldFinding // by name
	scratch []byte         // a name without its escapes
}

// fieldFinding is what a name was compared with.
type fieldFinding struct {
	first    []byte           // the value of the first field, as it stands in the body
	match    match            // how the first field's name compares
	repeated bool             // there is a second field
	bare     bool             // there is a field of the name without its first element
	reason   UnreadableReason // why the first one has no value
}

// read scans a form. It returns why the form as a whole is unreadable.
func (f *fields) read(t ContentType, body []byte) UnreadableReason {
	switch t.format {
	case formatURLEncoded:
		return f.readURLEncoded(body)
	case formatMultipart:
		return f.readMultipart(body, t.boundary)
	case FormatJSON:
		return ReasonType
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
func (f *fields) add(name, value []byte, reason UnreadableReason) UnreadableReason {
	if len(name) > 0 && name[0] == charsetField[0] && foldsTo(name, charsetField) {
		return ReasonCharsetField
	}
	if f.differs(name) {
		return ReasonNone
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
	return ReasonNone
}

// value returns what was found as a value.
func (f *fieldFinding) value(format Format) Value {
	switch {
	case f.repeated:
		return Unreadable(ReasonConflict)
	case f.match == matchNone && !f.bare:
		return Value{}
	case f.match != matchEqual:
		return Unreadable(ReasonPrefix)
	case f.reason != ReasonNone:
		return Unreadable(f.reason)
	case format == formatURLEncoded:
		return New(decode(f.first))
	default:
		return New(string(f.first))
	}
}
