package main

import (
	"os"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// TestResults_servers has a row for each server of the list and no other, in its order.
func TestResults_servers(t *testing.T) {
	page := string(assert.NoError(os.ReadFile("results.md"))(t))
	_, rows, found := strings.Cut(page, tableHead+"\n")
	assert.FatalIf(t, !found, "results.md has no table: %s", tableHead)
	rows, _, _ = strings.Cut(rows, "\n\n")
	var written, listed []string
	for _, line := range strings.Split(rows, "\n")[1:] { // after the line of dashes
		written = append(written, strings.TrimSpace(strings.Split(line, "|")[1]))
	}
	for _, s := range list() {
		listed = append(listed, s.String())
	}
	assert.Equal(t, strings.Join(written, "\n"), strings.Join(append(listed, "all"), "\n"), "the servers of the table")
}

// TestList names each server and each way once, and only those of a release have packages.
func TestList(t *testing.T) {
	servers := map[string]bool{}
	for _, s := range list() {
		assert.ErrorIf(t, servers[s.String()], "%s is there twice", s)
		servers[s.String()] = true
		assert.ErrorIf(t, (s.suite == "") != (len(s.packages) == 0), "%s has the release %q and the packages %v", s, s.suite, s.packages)
		assert.ErrorIf(t, !strings.Contains(strings.Join(s.command, " "), "{port}"), "%s is given no port: %v", s, s.command)
		for _, ways := range [][]string{s.forms, s.documents} {
			seen := map[string]bool{}
			for _, way := range ways {
				assert.ErrorIf(t, seen[way], "%s reads %s twice", s, way)
				seen[way] = true
			}
		}
	}
}

// TestCorpus has names of their own for all samples, each of which asks for something, and can be sent.
func TestCorpus(t *testing.T) {
	names := map[string]bool{}
	for _, s := range corpus() {
		assert.ErrorIf(t, names[s.name], "%s is there twice", s.name)
		names[s.name] = true
		assert.ErrorIf(t, s.field == "" && s.path == "", "%s asks for nothing", s.name)
		head := s.query + strings.Join(s.types, "")
		assert.ErrorIf(t, strings.ContainsAny(head, "\r\n") || strings.Contains(s.query, " "), "%s ends its head: %q", s.name, head)
	}
}

// TestHarness_read tells something of all samples, and a value of the plain ones.
func TestHarness_read(t *testing.T) {
	var h harness
	assert.Must(t, h.read())
	assert.Equal(t, len(h.samples), len(corpus()), "samples")
	plain := 0
	for i, s := range h.samples {
		switch {
		case s.query != "":
		case s.body == "email=a" && s.types[0] == urlencodedType:
			assert.Equal(t, h.toldFor(i, s.field).String(), `"a"`, "%s", s.name)
			plain++
		case s.body == `{"model":"a"}` && len(s.types) == 1 && s.types[0] == jsonType && s.field == "":
			assert.Equal(t, h.toldFor(i, s.path).String(), `"a"`, "%s", s.name)
			plain++
		}
	}
	assert.ErrorIf(t, plain < 2, "%d plain samples", plain)
}

func TestParseAnswer(t *testing.T) {
	for body, want := range map[string]answer{
		"none":                {},
		`text "a\u00f3"`:      {answerText, "aó"},
		"number 1e3":          {answerNumber, "1e3"},
		`other ["a"]`:         {answerOther, `["a"]`},
		"refused: no\nreally": {},
		"text a":              {},
	} {
		got, err := parseAnswer(200, body)
		assert.ErrorIf(t, (err != nil) != (want == answer{} && body != "none"), "%q: %v", body, err)
		if err == nil {
			assert.Equal(t, got, want, "%q", body)
		}
	}
	refused := assert.NoError(parseAnswer(400, "refused: Error: no\nreally"))(t)
	assert.Equal(t, refused.String(), "refused: 400 Error: no", "a refusal")
}

func TestJudge(t *testing.T) {
	text := func(text string) answer { return answer{answerText, text} }
	a := told{kind: toldText, text: "a", exact: true}
	for _, test := range []struct {
		told   told
		answer answer
		want   verdict
	}{
		{a, text("a"), verdictEqual},
		{a, text("A"), verdictDiffers},
		{a, answer{}, verdictNone},
		{a, answer{answerRefused, "400"}, verdictRefused},
		{a, answer{answerOther, `["a"]`}, verdictDiffers},
		{told{kind: toldText, text: " a"}, text("a"), verdictEqual},
		{told{kind: toldText, text: " a"}, text("b"), verdictDiffers},
		{told{kind: toldText, text: "1000", exact: true}, answer{answerNumber, "1.0E3"}, verdictEqual},
		{told{kind: toldText, text: "1000", exact: true}, text("1e+3"), verdictEqual},
		{told{kind: toldText, text: "1000", exact: true}, answer{answerNumber, "1001"}, verdictDiffers},
		{told{kind: toldText, text: "01", exact: true}, text("1"), verdictDiffers},
		{told{kind: toldText, text: "true", exact: true}, answer{answerOther, "true"}, verdictEqual},
		{told{}, text("a"), verdictDiffers},
		{told{}, answer{}, verdictNone},
		{told{kind: toldUnreadable}, text("a"), verdictStricter},
		{told{kind: toldUnreadable}, answer{}, verdictNone},
	} {
		assert.Equal(t, judge(test.told, test.answer), test.want, "told %s, read %s", test.told, test.answer)
	}
}

// TestReasonFor has disagreements that do no harm, and those that do.
func TestReasonFor(t *testing.T) {
	form, doc := &sample{field: "email"}, &sample{path: "model"}
	for _, test := range []struct {
		d        disagreement
		harmless bool
	}{
		{disagreement{sample: form, told: told{kind: toldText, text: "a"}, answer: answer{answerOther, `["a"]`}}, true},
		{disagreement{sample: form, told: told{kind: toldText, text: "a"}, answer: answer{answerOther, `["b"]`}}, false},
		{disagreement{sample: form, told: told{kind: toldText, text: "a"}, answer: answer{answerOther, `["a","a"]`}}, false},
		{disagreement{sample: form, told: told{}, answer: answer{answerOther, `["a"]`}}, false},
		{disagreement{sample: doc, told: told{}, answer: answer{answerOther, `{"x":1}`}}, true},
		{disagreement{sample: form, told: told{}, answer: answer{answerOther, `{"x":1}`}}, false},
		{disagreement{sample: form, server: "tomcat", way: "bare", told: told{kind: toldText, text: "ó"}, answer: answer{answerText, "Ã³"}}, true},
		{disagreement{sample: form, server: "tomcat", way: "utf-8", told: told{kind: toldText, text: "ó"}, answer: answer{answerText, "Ã³"}}, false},
		{disagreement{sample: doc, server: "rack", way: "json", answer: answer{answerText, "model"}}, true},
		{disagreement{sample: doc, server: "rack", way: "json", answer: answer{answerText, "b"}}, false},
		{disagreement{
			sample: doc, server: "asp.net of mono", way: "Newtonsoft-tree", told: told{kind: toldText, text: "2020-01-01"},
			answer: answer{answerOther, `"2020-01-01T00:00:00.0000000Z"`},
		}, true},
		{disagreement{
			sample: doc, server: "asp.net of mono", way: "Newtonsoft-tree", told: told{kind: toldText, text: "a"},
			answer: answer{answerOther, `["a","b"]`},
		}, false},
		{disagreement{
			sample: &sample{field: "model", path: "model", types: []string{jsonType}}, server: "cowboy", way: "urlencoded",
			told: told{kind: toldText, text: "x"}, answer: answer{answerText, "v"},
		}, true},
		{disagreement{
			sample: &sample{field: "model", types: []string{urlencodedType}}, server: "cowboy", way: "urlencoded",
			told: told{kind: toldText, text: "x"}, answer: answer{answerText, "v"},
		}, false},
	} {
		assert.Equal(t, reasonFor(&test.d) != "", test.harmless, "%s %s: told %s, read %s", test.d.server, test.d.way, test.d.told, test.d.answer)
	}
}
