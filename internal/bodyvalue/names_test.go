package bodyvalue

import (
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// TestNamesInJSON finds full and short names in texts, and those that only look so in none.
func TestNamesInJSON(t *testing.T) {
	const full = "{" + PlaceholderPrefix
	leaveOut := func(object map[string]any) bool { return object["handler"] == "limits" }
	for document, want := range map[string]string{
		`{"a":"` + full + `json.b}"}`:                                                               PlaceholderPrefix + "json.b /",
		`{"` + full + `form.b}":[{"c":"` + full + `json.a.b}x"}]}`:                                  PlaceholderPrefix + "form.b " + PlaceholderPrefix + "json.a.b /",
		`["` + full + `json.b}","` + full + `json.b}"]`:                                             PlaceholderPrefix + "json.b /",
		`["` + full + `json.b","` + full + `decision}","` + full + `json.{a}"]`:                     "/",
		`["{json.b}","a{form.c}{json.d}"]`:                                                          "/ form.c json.b json.d",
		`{"{json.b}":{"{form.c}":1}}`:                                                               "/ form.c json.b",
		`["\\{json.a}","${json.b}","{{json.c}}","{json.}","{json}","{jsons.a}","json.a","{json.a"]`: "/",
		`{"handler":"limits","key":"{json.a}` + full + `json.b}"}`:                                  "/",
		`["{json.a}"`: "/",
		`"{json.a}"`:  "/ json.a",
		`1`:           "/",
	} {
		got := append(append(NamesInJSON([]byte(document), leaveOut), "/"), ShortNamesInJSON([]byte(document), leaveOut)...)
		assert.Equal(t, strings.Join(got, " "), want, "the names in %s", document)
	}
}
