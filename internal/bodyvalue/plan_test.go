package bodyvalue

import (
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// The Content-Types of these tests.
const (
	typeJSON      = "application/json"
	typeForm      = "application/x-www-form-urlencoded"
	typeMultipart = "multipart/form-data; boundary=AaB"
)

// headerOf returns a header with a Content-Type, or with none if it is empty.
func headerOf(contentType string) http.Header {
	if contentType == "" {
		return http.Header{}
	}
	return http.Header{"Content-Type": {contentType}}
}

// sourceOf returns a source by its name without the prefix.
func sourceOf(t testing.TB, name string) ValueSource {
	t.Helper()
	return assert.NoError(ParseSource(PlaceholderPrefix + name))(t)
}

// planOf returns a plan of sources.
func planOf(t testing.TB, names ...string) *Plan {
	t.Helper()
	plan := new(Plan)
	for _, name := range names {
		plan.Add(sourceOf(t, name))
	}
	return plan
}

// readOf reads a body as a handler does.
func readOf(p *Plan, header http.Header, query, body string) *Values {
	contentType, reason := p.TypeOf(header)
	if reason != ReasonNone {
		return p.Unread(reason, query)
	}
	data := []byte(body)
	values := p.Read(contentType, query, data)
	clear(data) // which must not be kept
	return values
}

// textOf shows a value in tables.
func textOf(v Value) string {
	switch v.Kind() {
	case KindText:
		return "=" + v.Text()
	case KindUnreadable:
		return v.Reason().String()
	default:
		return "absent"
	}
}

// textsOf shows all values.
func textsOf(p *Plan, v *Values) string {
	texts := make([]string, len(p.sources))
	for i := range texts {
		texts[i] = textOf(v.Value(i))
	}
	return strings.Join(texts, " ")
}

func TestPlan_numbers(t *testing.T) {
	var plan Plan
	assert.ErrorIf(t, !plan.IsEmpty(), "the zero plan reads something")
	names := []string{"form.b", "json.a", "json.a.b", "form.a", "json.b", "form.c"}
	for i, name := range names {
		assert.Equal(t, plan.Add(sourceOf(t, name)), i, "the number of %s", name)
		assert.Equal(t, plan.Add(sourceOf(t, names[0])), 0, "the number of %s, added again", names[0])
	}
	assert.ErrorIf(t, plan.IsEmpty(), "the plan is empty")

	one, other := plan.With(sourceOf(t, "json.x"), sourceOf(t, "json.b")), plan.With(sourceOf(t, "form.x"), sourceOf(t, "json.y"))
	for i, name := range names {
		for _, p := range []*Plan{&plan, one, other} {
			number, ok := p.Number(PlaceholderPrefix + name)
			assert.ErrorIf(t, !ok || number != i, "%s has the number %d (%t), not %d", name, number, ok, i)
		}
	}
	for _, test := range []struct {
		plan *Plan
		name string
		want int
	}{
		{&plan, "json.x", -1}, {one, "json.x", 6}, {other, "json.x", -1}, {one, "form.x", -1}, {other, "form.x", 6}, {other, "json.y", 7},
		{one, "json.", -1}, {new(Plan), "json.a", -1},
	} {
		number, ok := test.plan.Number(PlaceholderPrefix + test.name)
		assert.ErrorIf(t, ok != (test.want >= 0) || ok && number != test.want, "%s has the number %d (%t)", test.name, number, ok)
	}
	const body = `{"a":{"b":1},"b":2,"x":3,"y":4}`
	assert.Equal(t, textsOf(&plan, readOf(&plan, headerOf(typeJSON), "", body)), "type absent =1 type =2 type", "values")
	assert.Equal(t, textsOf(one, readOf(one, headerOf(typeJSON), "", body)), "type absent =1 type =2 type =3", "values of one plan")
	assert.Equal(t, textsOf(other, readOf(other, headerOf(typeJSON), "", body)), "type absent =1 type =2 type type =4", "values of another")
}

// TestPlan_With_tokens keeps the tokens.
func TestPlan_With_tokens(t *testing.T) {
	var plan Plan
	plan.AddTokens()
	plan.AddTokens()
	assert.ErrorIf(t, plan.IsEmpty(), "a plan of tokens is empty")
	more := plan.With(sourceOf(t, "json.max_tokens"))
	values := readOf(more, headerOf(typeJSON), "", `{"max_tokens":5,"n":2}`)
	n, reason := values.Tokens(1)
	assert.ErrorIf(t, n != 10 || reason != ReasonNone, "%d tokens (%s)", n, reason)
	assert.Equal(t, textsOf(more, values), "=5", "the value")
	assert.ErrorIf(t, !new(Plan).With().IsEmpty(), "a plan with nothing is not empty")
	calls := new(Plan)
	calls.AddCalls()
	assert.ErrorIf(t, calls.IsEmpty() || calls.With().IsEmpty(), "a plan of calls is empty")
}

func TestPlan_TypeOf(t *testing.T) {
	tokens := new(Plan)
	tokens.AddTokens()
	calls := new(Plan)
	calls.AddCalls()
	plans := map[string]*Plan{
		"none": {}, "json": planOf(t, "json.a"), "form": planOf(t, "form.a"), "both": planOf(t, "form.a", "json.a"), "tokens": tokens, "calls": calls,
	}
	for _, test := range []struct {
		contentType string
		read        string // by these plans
		reason      UnreadableReason
	}{
		{typeJSON, "json both tokens calls", ReasonType},
		{"application/problem+json; charset=utf-8", "json both tokens calls", ReasonType},
		{typeForm, "form both", ReasonType},
		{typeMultipart, "form both", ReasonType},
		{"text/plain", "", ReasonType},
		{"", "", ReasonNoType},
		{"application/json, text/plain", "", ReasonTypes},
		{"application/json; charset=latin1", "", ReasonCharset},
		{"multipart/form-data", "", ReasonBoundary},
	} {
		for name, plan := range plans {
			want := test.reason
			if strings.Contains(test.read, name) {
				want = ReasonNone
			}
			_, got := plan.TypeOf(headerOf(test.contentType))
			assert.Equal(t, got, want, "the reason of %q for the plan %s", test.contentType, name)
		}
	}
	_, reason := plans["both"].TypeOf(http.Header{"Content-Type": {typeJSON}, "Content-Encoding": {"gzip"}})
	assert.Equal(t, reason, ReasonEncoding, "the reason of an encoding")
}
