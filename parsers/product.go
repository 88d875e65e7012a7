package main

import (
	"net/http"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
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
)

// String returns what is told in the table of disagreements.
func (t told) String() string {
	switch t.kind {
	case toldAbsent:
		return "absent"
	case toldUnreadable:
		return "unreadable: " + t.reason
	default:
		return quoteShort(t.text)
	}
}

// fold returns a text as a key.
func fold(text string) string { return bodyvalue.FoldKey(text) }

// readField returns what {form.<name>} has in a request.
func readField(s *sample) (told, error) { return read("form."+s.field, s) }

// readPath returns what {json.<path>} has in a request.
func readPath(s *sample) (told, error) { return read("json."+s.path, s) }

func read(name string, s *sample) (told, error) {
	source, err := bodyvalue.ParseSource(bodyvalue.PlaceholderPrefix + name)
	if err != nil {
		return told{}, err
	}
	var plan bodyvalue.Plan
	number := plan.Add(source)
	t, reason := plan.TypeOf(http.Header{"Content-Type": s.types})
	var values *bodyvalue.Values
	switch {
	case s.body == "":
		values = plan.Absent(s.query)
	case reason != bodyvalue.ReasonNone:
		values = plan.Unread(reason, s.query)
	default:
		values = plan.Read(t, s.query, []byte(s.body))
	}
	value := values.Value(number)
	switch value.Kind() {
	case bodyvalue.KindAbsent:
		return told{}, nil
	case bodyvalue.KindUnreadable:
		return told{kind: toldUnreadable, reason: value.Reason().String()}, nil
	default:
		return told{kind: toldText, text: value.Text(), exact: value.Exact().Kind() == bodyvalue.KindText}, nil
	}
}
