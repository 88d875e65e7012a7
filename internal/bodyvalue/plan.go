package bodyvalue

import (
	"net/http"
)

// Plan is what is read of each body. The zero value reads nothing. It must not be changed once it is used; then many
// requests use it at a time.
type Plan struct {
	sources []plannedSource
	numbers map[string]int // of the sources, by name
	tokens  bool           // those of a language model are read
	calls   bool           // those of a batch are counted
	forms   bool           // a source is a field of a form
	paths   bool           // a source is a path of JSON

	json JSONPlan
	form FormPlan
}

// plannedSource is a source with its place in the plan of its format.
type plannedSource struct {
	ValueSource
	number int
}

// Add adds a source and returns its number, for [Values.Value]. The same source has the same number.
func (p *Plan) Add(s ValueSource) int {
	if number, ok := p.numbers[s.name]; ok {
		return number
	}
	planned := plannedSource{ValueSource: s}
	if s.isForm {
		planned.number, p.forms = p.form.Add(s.field), true
	} else {
		planned.number, p.paths = p.json.AddPath(s.path), true
	}
	if p.numbers == nil {
		p.numbers = map[string]int{}
	}
	p.numbers[s.name] = len(p.sources)
	p.sources = append(p.sources, planned)
	return p.numbers[s.name]
}

// AddTokens adds what [Values.Tokens] needs.
func (p *Plan) AddTokens() {
	p.tokens = true
	p.json.AddTokens()
}

// AddCalls adds what [Values.Calls] needs.
func (p *Plan) AddCalls() {
	p.calls = true
	p.json.AddCalls()
}

// With returns a plan that reads more. The sources of this one keep their numbers.
func (p *Plan) With(sources ...ValueSource) *Plan {
	more := new(Plan)
	for i := range p.sources {
		more.Add(p.sources[i].ValueSource)
	}
	if p.tokens {
		more.AddTokens()
	}
	if p.calls {
		more.AddCalls()
	}
	for i := range sources {
		more.Add(sources[i])
	}
	return more
}

// IsEmpty reports whether nothing is read.
func (p *Plan) IsEmpty() bool { return len(p.sources) == 0 && !p.tokens && !p.calls }

// Number returns the number of a source, by the name of its placeholder without braces.
func (p *Plan) Number(name string) (int, bool) {
	number, ok := p.numbers[name]
	return number, ok
}

// Type is what a request's header says of its body. The zero value is a body without a type.
type Type struct{ form ContentType }

// TypeOf returns what a header says of the body, and why nothing that the plan reads can be in it, so that the body
// needs not be read: see [Plan.Unread]. If something can, the reason is [ReasonNone]. Names in the header are
// canonical, as net/http has them.
func (p *Plan) TypeOf(header http.Header) (Type, UnreadableReason) {
	t := Type{ContentTypeOf(header)}
	return t, p.refuses(t)
}

// refuses returns why nothing that the plan reads can be in a body of a type.
func (p *Plan) refuses(t Type) UnreadableReason {
	isRead := p.forms
	switch t.form.Format() {
	case FormatNone:
		return t.form.Reason()
	case FormatJSON:
		isRead = p.paths || p.tokens || p.calls
	}
	if !isRead {
		return ReasonType
	}
	return ReasonNone
}
