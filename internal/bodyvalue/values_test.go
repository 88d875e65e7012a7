package bodyvalue

import (
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// partOf returns a part of a form with the boundary of [typeMultipart].
func partOf(name, data string) string {
	return "--AaB\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + data + "\r\n"
}

func TestPlan_Read(t *testing.T) {
	plan := planOf(t, "json.email", "form.email", "json.user.email", "form.user[email]", "json.max_tokens", "form._x")
	for _, test := range []struct{ contentType, query, body, want string }{
		{typeJSON, "", `{"email":"a","user":{"email":"b"},"max_tokens":5.0}`, "=a type =b type =5 type"},
		{typeJSON, "", `{"email":true,"user":null}`, "=true type absent type absent type"},
		{typeJSON, "", `{"email":["a"],"Email":1,"user":[{"email":"b"}],"max_tokens":1e400}`, "repeated_name type array type number type"},
		{typeJSON, "", `{"email":"a\u0007","user":{"email":"\ufeff"},"max_tokens":" 5"}`, "control type byte_order_mark type = 5 type"},
		{typeJSON, "", `{"user.email":1}`, "absent type flat_name type absent type"},
		{typeJSON, "", `{"email":1`, "syntax type syntax type syntax type"},
		{typeJSON, "", "", "syntax type syntax type syntax type"},
		{typeJSON, "y=1&email_x=2", `{"email":"a"}`, "=a type flat_name type absent type"},
		{typeJSON, "Email=1", `{"email":"a"}`, "query query flat_name type absent type"},
		{typeJSON, "user[x]=1", `{"user":{"email":"b"}}`, "absent type query type absent type"},
		{typeJSON, "user=1", `{"user":{"email":"b"}}`, "absent type query query absent type"},
		{typeJSON, "?max.tokens;y", `{"max_tokens":5`, "syntax type syntax type query type"},
		{typeForm, "", "email=a+b&user%5Bpassword%5D=c&max_tokens=5&x=", "type =a b type prefix type ="},
		{typeForm, "", "email=a+b&user%5Bemail%5D=c", "type conflict type =c type absent"},
		{typeForm, "model%2Eemail=b&model.y=1", "email=a&user[email]=c", "type query type =c type absent"},
		{typeForm, "", "email=a&email[]=b&user=c", "type conflict type prefix type absent"},
		{typeForm, "", "", "type absent type absent type absent"},
		{typeForm, "", "email=a;", "type semicolon type semicolon type semicolon"},
		{typeForm, "email", "email=a;", "query query type semicolon type semicolon"},
		{typeMultipart, "x[]=1", partOf("email", "a") + partOf("x", "b") + "--AaB--\r\n", "type =a type prefix type query"},
		{typeMultipart, "", "--AaB", "type delimiter type delimiter type delimiter"},
		{"text/plain", "x", "email=a", "type type type type type query"},
		{"", "", "email=a", "no_type no_type no_type no_type no_type no_type"},
	} {
		values := readOf(plan, headerOf(test.contentType), test.query, test.body)
		assert.Equal(t, textsOf(plan, values), test.want, "%s, query %q: %s", test.contentType, test.query, test.body)
	}
}

// TestPlan_Read_types reads with types for which [Plan.TypeOf] has a reason.
func TestPlan_Read_types(t *testing.T) {
	body := []byte(`{"a":1}`)
	forms := planOf(t, "form.a")
	contentType, _ := forms.TypeOf(headerOf(typeJSON))
	assert.Equal(t, textOf(forms.Read(contentType, "", body).Value(0)), "type", "a field of JSON")
	paths := planOf(t, "json.a")
	assert.Equal(t, textOf(paths.Read(Type{}, "", body).Value(0)), "no_type", "a path without a type")
	contentType, _ = paths.TypeOf(headerOf("application/json; charset=x"))
	assert.Equal(t, textOf(paths.Read(contentType, "", body).Value(0)), "charset", "a path of another charset")
}

func TestPlan_Unread(t *testing.T) {
	plan := planOf(t, "json.a", "form.b")
	for query, want := range map[string]string{"": "size size", "a": "query size", "b=1;x": "size query", "a.x=%00": "query size"} {
		assert.Equal(t, textsOf(plan, plan.Unread(ReasonSize, query)), want, "values with the query %q", query)
	}
	for query, want := range map[string]string{"": "absent absent", "A": "query absent", "b[]&x": "absent query"} {
		assert.Equal(t, textsOf(plan, plan.Absent(query)), want, "values without a body, with the query %q", query)
	}
}

func TestValues_Tokens(t *testing.T) {
	var tokens Plan
	tokens.AddTokens()
	plan := tokens.With(sourceOf(t, "json.a"), sourceOf(t, "form.a"))
	type result struct {
		tokens int64
		reason UnreadableReason
		input  int64
	}
	for name, test := range map[string]struct {
		values *Values
		want   result
	}{
		"JSON":     {readOf(plan, headerOf(typeJSON), "n=2", `{"max_tokens":5,"n":3,"a":"12345678"}`), result{17, ReasonNone, 2}},
		"no bound": {readOf(plan, headerOf(typeJSON), "", `{"a":"12345678"}`), result{102, ReasonNone, 2}},
		"a number": {readOf(plan, headerOf(typeJSON), "", `{"max_tokens":5,"n":[],"a":"12345678"}`), result{100, ReasonArray, 2}},
		"syntax":   {readOf(plan, headerOf(typeJSON), "", `{"max_tokens":5,"a":"12345678"`), result{100, ReasonSyntax, 0}},
		"form":     {readOf(plan, headerOf(typeForm), "", `a=1`), result{100, ReasonType, 0}},
		"no type":  {readOf(plan, headerOf(""), "", `{"max_tokens":5}`), result{100, ReasonNoType, 0}},
		"unread":   {plan.Unread(ReasonStreamed, ""), result{100, ReasonStreamed, 0}},
		"absent":   {plan.Absent("max_tokens=1"), result{100, ReasonNone, 0}},
	} {
		n, reason := test.values.Tokens(100)
		assert.Equal(t, result{n, reason, test.values.Input()}, test.want, "%s: tokens, reason and input", name)
	}
}

func TestValues_Calls(t *testing.T) {
	var calls Plan
	calls.AddCalls()
	plan := calls.With(sourceOf(t, "json.a"), sourceOf(t, "form.a"))
	const batch = `[{"method":"a"},{"query":"b"},{"a":1}]`
	type result struct {
		calls  int64
		reason UnreadableReason
	}
	for name, test := range map[string]struct {
		values *Values
		want   result
	}{
		"batch":      {readOf(plan, headerOf(typeJSON), "", batch), result{2, ReasonNone}},
		"alone":      {readOf(&calls, headerOf("application/graphql-response+json"), "method=1", batch), result{2, ReasonNone}},
		"object":     {readOf(plan, headerOf(typeJSON), "", `{"method":"a"}`), result{1, ReasonNone}},
		"syntax":     {readOf(plan, headerOf(typeJSON), "", batch[1:]), result{100, ReasonSyntax}},
		"empty":      {readOf(plan, headerOf(typeJSON), "", ""), result{100, ReasonSyntax}},
		"form":       {readOf(plan, headerOf(typeForm), "", batch), result{100, ReasonType}},
		"other type": {readOf(&calls, headerOf("application/graphql"), "", batch), result{100, ReasonType}},
		"multipart":  {readOf(&calls, headerOf(typeMultipart), "", batch), result{100, ReasonType}},
		"no type":    {readOf(plan, headerOf(""), "", batch), result{100, ReasonNoType}},
		"unread":     {plan.Unread(ReasonSize, ""), result{100, ReasonSize}},
		"absent":     {plan.Absent(""), result{1, ReasonNone}},
	} {
		n, reason := test.values.Calls(100)
		assert.Equal(t, result{n, reason}, test.want, "%s: calls and reason", name)
	}
}

// fuzzedSources are those that bodies of the seeds have, in formats that both have them.
var fuzzedSources = []string{
	"json.a", "form.a", "json.a.b", "form.a[b]", "json.max_tokens", "form.A", "json.b", "form.é", "json.é", `json.a\.b`, "form.b",
}

// FuzzPlan compares a plan of many sources with a plan for each of them.
func FuzzPlan(f *testing.F) {
	for _, body := range []string{
		`{"a":{"b":1},"b":"x\n","é":"\u00e9"}`, `{"a":1,"A":2,"max_tokens":5}`, `{"a.b":1,"a":"\ud800","é":[1]}`, `[{"a":1}]`, `{"a":"\u0001"`,
		`{"max_tokens":"\u0001","n":2}`, "a=1&b=%C3%B3&a%5Bb%5D=2", "A=1&a=2", "%C3%A9=x+&b", "a=1;b", partOf("a", "1") + partOf("é", "x") + "--AaB--",
		partOf("a[b]", "") + partOf("a", "\x00") + "--AaB--\r\n", "",
	} {
		f.Add([]byte(body), "", byte(len(body)))
		f.Add([]byte(body), "x=1&a[]=2", byte(0))
		f.Add([]byte(body), "%C3%89", byte(1))
		f.Add([]byte(body), "n=1&max_tokens", byte(2))
	}
	f.Fuzz(func(t *testing.T, body []byte, query string, kind byte) {
		header := headerOf([]string{typeJSON, typeForm, typeMultipart, "text/html"}[kind%4])
		many := planOf(t, fuzzedSources...)
		many.AddTokens()
		values := readOf(many, header, query, string(body))
		for i, name := range fuzzedSources {
			alone := planOf(t, name)
			assert.Equal(t, textOf(values.Value(i)), textOf(readOf(alone, header, query, string(body)).Value(0)), "%s of %q", name, body)
		}
		alone := new(Plan)
		alone.AddTokens()
		tokens := readOf(alone, header, query, string(body))
		n, reason := values.Tokens(7)
		m, reasonAlone := tokens.Tokens(7)
		assert.ErrorIf(t, n != m || reason != reasonAlone, "%d tokens (%s) beside others, %d (%s) alone, of %q", n, reason, m, reasonAlone, body)
		assert.Equal(t, values.Input(), tokens.Input(), "the input of %q", body)
	})
}

// BenchmarkPlan_Read reads one value of a body of 1 KiB, from the header on.
func BenchmarkPlan_Read(b *testing.B) {
	for name, test := range map[string]struct{ source, contentType, body, want string }{
		"json": {"json.model", typeJSON, `{"model":"small","messages":[{"role":"user","content":"` + strings.Repeat("What is a limit? ", 56) +
			`"}],"stream":true}`, "=small"},
		"urlencoded": {"form.email", typeForm, "email=bob%40example.com&password=secret" + strings.Repeat("&name=a+short+text&number=1234567890", 27),
			"=bob@example.com"},
		"multipart": {"form.email", typeMultipart, partOf("email", "bob@example.com") + strings.Repeat(partOf("name", "a short text"), 13) +
			"--AaB--\r\n", "=bob@example.com"},
	} {
		plan, header, body := planOf(b, test.source), headerOf(test.contentType), []byte(test.body)
		b.Run("body="+name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				contentType, _ := plan.TypeOf(header)
				value := plan.Read(contentType, "next=%2Fhome", body).Value(0)
				assert.FatalIf(b, value.Text() != test.want[1:], "%v", value)
			}
		})
	}
}
