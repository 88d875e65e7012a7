package main

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// known is a disagreement that does no harm.
type known struct {
	reason string
	ways   []string // "server, way", without releases; nil for all
	holds  func(d *disagreement) bool
}

// harmless are the disagreements that do no harm. Any other fails a run, and so does one of these that is not met any more.
var harmless = []known{
	{
		reason: "a list of nothing but the same text",
		holds: func(d *disagreement) bool {
			var texts []string
			return d.told.kind == toldText && d.answer.kind == answerOther && json.Unmarshal([]byte(d.answer.text), &texts) == nil &&
				len(texts) == 1 && fold(texts[0]) == fold(d.told.text)
		},
	},
	{
		reason: "an object of JSON: it is no value here, and an application that takes a text refuses it",
		holds: func(d *disagreement) bool {
			isObject := strings.HasPrefix(d.answer.text, "{") || strings.HasPrefix(d.answer.text, "#<ActionController::Parameters") ||
				d.answer.text == "[]" // PHP's of {}
			return d.sample.path != "" && d.told.kind == toldAbsent && d.answer.kind == answerOther && isObject
		},
	},
	{
		reason: "ISO-8859-1, in which Tomcat reads forms without a charset where no web.xml says otherwise",
		ways:   []string{"tomcat, bare"},
		holds:  func(d *disagreement) bool { return d.answer.text == latin1(d.told.text) },
	},
	{
		reason: "a whole number, for which the application asks: others are cut, and strings and words are read as one",
		ways:   []string{"fastapi, int", "commons-fileupload, parsers of JSON for Java, jackson-int"},
		holds:  func(d *disagreement) bool { return d.answer.kind == answerNumber },
	},
	{
		reason: "the name itself, which Ruby finds in a document that is a string",
		ways:   []string{"rack, json", "rack, oj", "roda, json"},
		holds:  func(d *disagreement) bool { return d.told.kind == toldAbsent && d.answer.text == d.sample.path },
	},
	{
		reason: "an object with the same text, which Catalyst makes of a part with a Content-Transfer-Encoding",
		ways:   []string{"catalyst, parameters"},
		holds: func(d *disagreement) bool {
			var part struct{ Data *string }
			return json.Unmarshal([]byte(d.answer.text), &part) == nil && part.Data != nil && *part.Data == d.told.text
		},
	},
	{
		reason: "a field of a form under a type of JSON: an application that reads forms has a policy for forms, which reads nothing there",
		ways: []string{
			"bottle, params", "netty, form", "poco, form", "cowboy, urlencoded", "nginx, lua-post-args", "nginx, js-querystring",
		},
		holds: func(d *disagreement) bool { return d.readsOther(jsonType, "+json") },
	},
	{
		reason: "a moment, which ASP.NET makes of a text that is one: no key of an account looks like that",
		ways: []string{
			"asp.net of mono, Newtonsoft-tree", "asp.net of mono, Newtonsoft-object", "asp.net of mono, JavaScriptSerializer",
		},
		holds: func(d *disagreement) bool {
			_, err := time.Parse(`"`+time.RFC3339+`"`, d.answer.text)
			return d.answer.kind == answerOther && err == nil
		},
	},
	{
		reason: "JSON within a form: an application that reads JSON has a policy for JSON, which reads nothing there",
		ways:   []string{"parsers of JSON for Go, jsonparser"},
		holds:  func(d *disagreement) bool { return d.readsOther(urlencodedType) },
	},
}

// readsOther reports whether a value of one format is read by a reader of the other one, under a type with one of these texts.
func (d *disagreement) readsOther(types ...string) bool {
	return d.sample.field != "" && d.sample.path != "" && len(d.sample.types) == 1 &&
		slices.ContainsFunc(types, func(text string) bool { return strings.Contains(strings.ToLower(d.sample.types[0]), text) })
}

// latin1 returns the text that the bytes of UTF-8 are in ISO-8859-1.
func latin1(text string) string {
	runes := make([]rune, len(text))
	for i := range len(text) {
		runes[i] = rune(text[i])
	}
	return string(runes)
}

// reasonFor returns why a disagreement does no harm, or "".
func reasonFor(d *disagreement) string {
	for _, k := range harmless {
		if (k.ways == nil || slices.Contains(k.ways, d.server+", "+d.way)) && k.holds(d) {
			return k.reason
		}
	}
	return ""
}
