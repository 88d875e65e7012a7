package bodyvalue

// Values are what a plan has read of one request. They hold copies of the texts alone, not the body. They may be used
// at several places at a time.
type Values struct {
	values []Value // by the number of the source
	few    [2]Value
	weight Weight
	batch  Batch
	unread UnreadableReason // why there is neither
	isRead bool
}

// Read reads a complete body, and does not keep it. The query is that of the request's URL, as it was sent: a value is
// unreadable if a parameter of the query conflicts with its field, or with the first name of its path, since some
// applications prefer the parameter. So is a value of another format than the body's.
func (p *Plan) Read(t Type, query string, body []byte) *Values {
	if reason := p.refuses(t); reason != ReasonNone {
		return p.Unread(reason, query)
	}
	if t.form.Format() == FormatJSON {
		return p.readJSON(query, body)
	}
	return p.readForm(t, query, body)
}

func (p *Plan) readForm(t Type, query string, body []byte) *Values {
	fields := p.form.Read(t.form, body)
	v := p.valuesBeside(query, true, func(s *plannedSource) Value {
		if !s.isForm {
			return Unreadable(ReasonType)
		}
		return fields[s.number]
	})
	v.unread, v.isRead = ReasonType, true
	return v
}

func (p *Plan) readJSON(query string, body []byte) *Values {
	r := p.json.NewReader() // on the stack, as no function keeps it
	r.Write(body)
	r.End()
	v := p.valuesOf(query, func(s *plannedSource) Value {
		if s.isForm {
			return Unreadable(ReasonType)
		}
		return r.Value(s.number)
	})
	v.weight, v.batch, v.isRead = r.Weight(), r.Batch(), true
	return v
}

// Unread returns the values of a body that is not read, for a reason: each is unreadable. The query is that of
// [Plan.Read].
func (p *Plan) Unread(reason UnreadableReason, query string) *Values {
	v := p.valuesOf(query, func(*plannedSource) Value { return Unreadable(reason) })
	v.unread = reason
	return v
}

// Absent returns the values of a request without a body: each is absent, but for those that the query makes unreadable,
// see [Plan.Read].
func (p *Plan) Absent(query string) *Values {
	return p.valuesOf(query, func(*plannedSource) Value { return Value{} })
}

// valuesOf returns the values that a function returns, where the query has nothing to say.
func (p *Plan) valuesOf(query string, of func(*plannedSource) Value) *Values {
	return p.valuesBeside(query, false, of)
}

// valuesBeside is valuesOf for a body that may be a form.
func (p *Plan) valuesBeside(query string, isForm bool, of func(*plannedSource) Value) *Values {
	v := new(Values)
	v.values = v.few[:min(len(p.sources), len(v.few))]
	if len(p.sources) > len(v.few) {
		v.values = make([]Value, len(p.sources))
	}
	for i := range p.sources {
		s := &p.sources[i]
		inQuery := s.field.InQuery
		if isForm && s.isForm {
			inQuery = s.field.InQueryOfForm
		}
		if inQuery(query) {
			v.values[i] = Unreadable(ReasonQuery)
		} else {
			v.values[i] = of(s)
		}
	}
	return v
}

// Cut cuts each text to so many bytes, at a character's beginning, so that it does not hold the memory of a long one.
func (v *Values) Cut(length int) {
	for i := range v.values {
		v.values[i] = v.values[i].Cut(length)
	}
}

// IsRead reports whether a body has been read, so that an absent value is missing in the body.
func (v *Values) IsRead() bool { return v.isRead }

// Value returns the value of a source, by the number that [Plan.Add] or [Plan.Number] returned.
func (v *Values) Value(n int) Value { return v.values[n] }

// Tokens returns how many tokens a call to a language model may cost, see [Weight.Tokens]. It is n where the
// body does not tell, and the reason says why if the body, or a number that counts, is unreadable. The plan must have
// [Plan.AddTokens].
func (v *Values) Tokens(n int64) (int64, UnreadableReason) {
	if v.unread != ReasonNone {
		return n, v.unread
	}
	return v.weight.Tokens(n)
}

// Calls returns how many calls the body holds, see [Batch.Calls]: 1 where there is no body. It is n where the body is
// unreadable or no JSON, and the reason says why. The plan must have [Plan.AddCalls].
func (v *Values) Calls(n int64) (int64, UnreadableReason) {
	if v.unread != ReasonNone {
		return n, v.unread
	}
	return v.batch.Calls(n)
}

// Input returns an estimate of the tokens that a language model reads of the body, see [Weight.Input]. It is 0
// where the body is not read, or no JSON.
func (v *Values) Input() int64 { return v.weight.Input() }
