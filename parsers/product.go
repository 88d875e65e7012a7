package main

import (
	"net/http"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/formbody"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/jsonbody"
)

// told is what this module makes of a request.
type told struct {
	kind   toldKind
	text   string
	exact  bool   // the text counts also where keys are not folded
	reason string // why there is no value
}

type toldKind uint8

const (
	toldAbsent toldKind = iota
	toldUnreadable
	toldText
	toldNumber
	toldWord
)

// String returns what is told in the table of disagreements.
func (t told) String() string {
	switch t.kind {
	case toldAbsent:
		return "absent"
	case toldUnreadable:
		return "unreadable: " + t.reason
	case toldText:
		return quoteShort(t.text)
	}
	return t.text
}

// fold returns a text as a key.
func fold(text string) string { return formbody.FoldKey(text) }

// readField returns what {form.<name>} has in a request.
func readField(s sample) (told, error) {
	name, err := formbody.ParseName(s.field)
	if err != nil {
		return told{}, err
	}
	var plan formbody.Plan
	plan.Add(name)
	value := plan.Read(formbody.TypeOf(http.Header{"Content-Type": s.types}), s.query, []byte(s.body))[0]
	return fromForm(value), nil
}

// readPath returns what {json.<path>} has in a request.
func readPath(s sample) (told, error) {
	path, err := jsonbody.ParsePath(s.path)
	if err != nil {
		return told{}, err
	}
	first, err := formbody.ParseName(path.First())
	if err != nil {
		return told{}, err
	}
	header := formbody.TypeOf(http.Header{"Content-Type": s.types})
	switch {
	case header.Reason() != formbody.ReasonNone:
		return fromForm(formbody.Unreadable(header.Reason())), nil
	case header.Format() != formbody.FormatJSON:
		return fromForm(formbody.Unreadable(formbody.ReasonType)), nil
	case first.InQuery(s.query):
		return fromForm(formbody.Unreadable(formbody.ReasonQuery)), nil
	}
	var plan jsonbody.RequestPlan
	plan.AddPath(path)
	return fromDocument(plan.ReadRequest([]byte(s.body)).Value(0)), nil
}

func fromForm(v formbody.Value) told {
	switch v.Kind() {
	case formbody.KindAbsent:
		return told{}
	case formbody.KindUnreadable:
		return told{kind: toldUnreadable, reason: v.Reason().String()}
	default:
		return told{kind: toldText, text: v.Text(), exact: v.Exact().Kind() == formbody.KindText}
	}
}

func fromDocument(v jsonbody.Value) told {
	switch v.Kind() {
	case jsonbody.KindAbsent:
		return told{}
	case jsonbody.KindUnreadable:
		return told{kind: toldUnreadable, reason: v.Reason().String()}
	case jsonbody.KindNumber:
		return told{kind: toldNumber, text: v.Text(), exact: true}
	case jsonbody.KindWord:
		return told{kind: toldWord, text: v.Text(), exact: true}
	default:
		return fromForm(formbody.NewValue(v.Text()))
	}
}
