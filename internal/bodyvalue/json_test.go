package bodyvalue

import (
	"strconv"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// readPieces reads a body in pieces of a length.
func readPieces(plan *JSONPlan, body string, length int) *JSONReader {
	r := plan.NewReader()
	for ; len(body) > length; body = body[length:] {
		r.Write([]byte(body[:length]))
	}
	r.Write([]byte(body))
	r.End()
	return r
}

// reasonedResult returns the value of the first path, and why it is unreadable.
func reasonedResult(r *JSONReader) string {
	result := resultOf(r, 0)
	if result == referenceUnreadable {
		result += " " + r.Value(0).Reason().String()
	}
	return result
}

// checkRequest reads a body for one path, in pieces of several lengths.
func checkRequest(t *testing.T, path, body, want string) {
	t.Helper()
	plan := requestPlan(t, path)
	for _, length := range []int{max(1, len(body)), 1, 2, 3, 7} {
		assert.Equal(t, reasonedResult(readPieces(plan, body, length)), want, "%s in %.200q, pieces of %d", path, body, length)
	}
}

func TestRequest(t *testing.T) {
	for _, row := range rows(t, "requests.txt", 3) {
		checkRequest(t, unescaped(t, row[0]), unescaped(t, row[1]), unescaped(t, row[2]))
	}
}

// TestRequest_bounds has bodies that are long or deep.
func TestRequest_bounds(t *testing.T) {
	nested := func(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }
	long := strings.Repeat("n", maxName)
	for _, c := range []struct{ path, body, want string }{
		{"a", `{"x":` + nested(511) + `,"a":1}`, "number:1"},
		{"a", `{"x":` + nested(512) + `,"a":1}`, "unreadable depth"},
		{"a", `{"x":` + strings.Repeat(`{"x":`, 511) + `1` + strings.Repeat("}", 511) + `,"a":1}`, "number:1"},
		{"a", strings.Repeat(`{"x":`, 512) + `{}`, "unreadable depth"},
		{"a", `{"x":[` + nested(500) + `,` + strings.Repeat("{\"a\":[", 200) + strings.Repeat("]}", 200) + `],"a":1}`, "number:1"},
		{"a", nested(100_000), "unreadable depth"},
		{long, `{"` + long + `":1,"` + long + `n":2}`, "number:1"},
		{long, `{"` + long + `":1,"\u004e` + long[1:] + `":2}`, "unreadable repeated_name"},
		{strings.Repeat("k", maxName), `{"` + strings.Repeat(`\u212a`, maxName) + `":1}`, "unreadable other_case"},
		{strings.Repeat("k", maxName), `{"` + strings.Repeat("\u212a", maxName) + `k":1}`, "absent"},
		{"a", `{"` + strings.Repeat("_", 67) + `A":1}`, "unreadable other_case"},
		{"a", `{"` + strings.Repeat("-", 1000) + `A":1}`, "unreadable other_case"},
		{"a", `{"` + strings.Repeat("-\\u0062", 60) + `a":1}`, "absent"},
		{"a", `{"` + strings.Repeat(" ", 67) + `b":1,"a":2}`, "unreadable other_case"},
		{"a", `{"` + strings.Repeat(" ", 66) + `b":1,"a":2}`, "number:2"},
		{"a", `{"b` + strings.Repeat(`\t`, 67) + `":1,"a":2}`, "unreadable other_case"},
		{"a.b", `{"a":{"b":1,"` + strings.Repeat(" ", 73) + `x":2}}`, "unreadable other_case"},
		{"a", `{"a":"` + strings.Repeat(`x\n`, 100_000) + `"}`, "string:" + strings.Repeat("x\n", 100_000)},
		{"a", `{"a":0.` + strings.Repeat("0", 61) + `}`, "number:0"},
		{"a", `{"a":0.` + strings.Repeat("0", 63) + `}`, "unreadable number"},
		{strings.Repeat("a.", maxNames-1) + "a", strings.Repeat(`{"a":`, maxNames) + `"x"` + strings.Repeat("}", maxNames), "string:x"},
	} {
		checkRequest(t, c.path, c.body, c.want)
	}
}

// TestRequest_paths reads several paths in one pass, some of which begin others, and some of the same name.
func TestRequest_paths(t *testing.T) {
	plan := requestPlan(t, "a", "a.b", "A", "a.b", "c")
	for body, want := range map[string][]string{
		`{"a":{"b":1},"c":"x"}`: {"absent", "number:1", referenceUnreadable, "number:1", "string:x"},
		`{"A":2}`:               {referenceUnreadable, referenceUnreadable, "number:2", referenceUnreadable, "absent"},
		`{"a":3,"A":2}`:         {referenceUnreadable, referenceUnreadable, referenceUnreadable, referenceUnreadable, "absent"},
		`{"c":1}`:               {"absent", "absent", "absent", "absent", "number:1"},
	} {
		r := plan.readRequest([]byte(body))
		for i := range want {
			assert.Equal(t, resultOf(r, i), want[i], "path %d of %s", i, body)
		}
	}
}

// TestRequest_levels goes on in an object on the path behind others within it.
func TestRequest_levels(t *testing.T) {
	plan := requestPlan(t, "a.b.c", "a.d", "d", "c")
	r := plan.readRequest([]byte(`{"x":{"d":0},"a":{"x":{"d":0},"b":{"c":1,"x":[{"c":0}]},"x":{},"d":2},"c":3,"d":4}`))
	for i, want := range []string{"number:1", "number:2", "number:4", "number:3"} {
		assert.Equal(t, resultOf(r, i), want, "path %d", i)
	}
}

// TestRequestPlan_empty reads for the input alone, and for the document itself.
func TestRequestPlan_empty(t *testing.T) {
	r := new(JSONPlan).readRequest([]byte(`{"a":"12345","b":[1,{}]}`))
	assert.Equal(t, r.reason, ReasonNone, "reason")
	assert.Equal(t, r.Weight().Input(), 2, "input")
	assert.Equal(t, new(JSONPlan).readRequest([]byte("{")).Weight().Input(), 0, "input of half a document")
	var plan JSONPlan
	plan.AddPath(JSONPath{})
	assert.Equal(t, resultOf(plan.readRequest([]byte("1.0")), 0), "number:1", "document")
}

func TestWeight_Tokens(t *testing.T) {
	plan := requestPlan(t, "max_tokens")
	plan.AddTokens()
	plan.AddTokens()
	encoded := strings.Repeat("aB3+", 128)
	cases := [][]string{
		{`{"max_tokens":5,"a":"` + encoded + `"}`, "133"},
		{`{"max_tokens":5,"a":"` + encoded + ` "}`, "5"},
		{`{"max_tokens":5,"a":"` + encoded[1:] + ` "}`, "133"},
		{`{"max_tokens":5,"a":"` + strings.ReplaceAll(encoded, "+", `\/`) + `=="}`, "5"},
		{`{"max_tokens":5,"a":"data:image/png;base64,` + encoded + `"}`, "5"},
	}
	for _, row := range append(cases, rows(t, "weights.txt", 2)...) {
		for _, length := range []int{len(row[0]), 1, 5} {
			r := readPieces(plan, row[0], length)
			n, reason := r.Weight().Tokens(100)
			assert.Equal(t, strconv.FormatInt(n, 10), row[1], "%.100s, pieces of %d (%s)", row[0], length, reason)
		}
	}
}

// TestRequestPlan_AddTokens keeps strings where a path asks for them, not for tokens.
func TestRequestPlan_AddTokens(t *testing.T) {
	plan := requestPlan(t, "max_tokens")
	plan.AddTokens()
	r := plan.readRequest([]byte(`{"max_tokens":"a","n":"b","options":{"num_predict":"\u0063"}}`))
	kept := ""
	for i := range r.found {
		kept += r.found[i].text
	}
	assert.Equal(t, kept+string(r.text.kept), "a", "the strings that are kept")
}

// TestWeight_Tokens_reasons has the reasons why the fallback is taken.
func TestWeight_Tokens_reasons(t *testing.T) {
	var plan JSONPlan
	plan.AddTokens()
	for body, want := range map[string]UnreadableReason{
		`{"n":1`:                          ReasonSyntax,
		`{"n":1,"N":}`:                    ReasonSyntax,
		`{"n":1,"n":1}`:                   ReasonRepeated,
		`{"N":1}`:                         ReasonCase,
		`{"max_tokens":[]}`:               ReasonArray,
		`{"options.num_predict":1}`:       ReasonFlat,
		`{"max_tokens":9007199254740993}`: ReasonNumber,
		`{"max_tokens":"\ud800"}`:         ReasonSurrogate,
		`{"max_tokens":3}`:                ReasonNone,
	} {
		_, reason := plan.readRequest([]byte(body)).Weight().Tokens(1)
		assert.Equal(t, reason, want, "%s", body)
	}
}

func TestParsePath(t *testing.T) {
	for text, want := range map[string]string{
		"a":        "a",
		"a.b":      "a/b",
		`a\.b.c`:   "a.b/c",
		`a\-b.\{`:  "a-b/{",
		"a.0":      "a/0",
		"a..b":     "",
		"":         "",
		"a|b":      "",
		"a+b":      "",
		"a-b":      "a-b",
		`a\-b-c.d`: "a-b-c/d",
		"2*a":      "",
		`a\`:       "",
		"{a}":      "",
		"a[0]":     "",
		"a b":      "",
		"a|":       "",
	} {
		path, err := ParseJSONPath(text)
		assert.Equal(t, strings.Join(path.names, "/"), want, "path %q (%v)", text, err)
		assert.ErrorIf(t, (err == nil) != (want != ""), "path %q: %v", text, err)
		first, _, _ := strings.Cut(want, "/")
		assert.Equal(t, path.First(), first, "first name of %q", text)
	}
}
