package bodyvalue

import (
	"encoding/json"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// harmless are the cases of testdata/servers.tsv that are read here although servers read different values.
var harmless = map[string]string{
	"[]":                 "a list of the same text",
	"value spaces":       "Tornado drops blanks at the ends: so do keys, and elsewhere the value is not read",
	"value nbsp":         "as above, and Tomcat reads ISO-8859-1",
	"mp value CRLF end":  "as value spaces",
	"mp value spaces":    "as value spaces",
	"value emoji":        "Tomcat reads ISO-8859-1, a text for each text of UTF-8",
	"nfd":                "as above",
	"utf8 sentinel":      "as above",
	"pct upper/lower":    "as above",
	"mp type plain utf8": "as above",
	"mp value utf8":      "as above",
}

// TestPlan_servers compares with what servers were seen to read.
func TestPlan_servers(t *testing.T) {
	data := assert.NoError(os.ReadFile("testdata/servers.tsv"))(t)
	disagreements := 0
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		columns := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		assert.FatalIf(t, len(columns) != 7, "%q has %d columns", line, len(columns))
		name, query := columns[0], columns[3]
		body := assert.NoError(strconv.Unquote(columns[4]))(t)
		var types []string
		assert.Must(t, json.Unmarshal([]byte(columns[2]), &types))
		var answers map[string]int
		assert.Must(t, json.Unmarshal([]byte(columns[6]), &answers))

		value := readOf(planOf(t, "form."+columns[1]), http.Header{"Content-Type": types}, query, body).Value(0)
		got := map[Kind]string{
			KindAbsent: "absent", KindUnreadable: "unreadable", KindText: strconv.Quote(value.Text()),
		}[value.Kind()]
		want := columns[5]
		if value.Kind() == KindText {
			want = strconv.Quote(assert.NoError(unquoteJSON(want))(t))
		}
		assert.ErrorIf(t, got != want, "%s: %s is %s (%s), not %s", name, columns[1], got, value.Reason(), want)
		if value.Kind() == KindUnreadable || agree(value, answers) {
			assert.ErrorIf(t, harmless[name] != "", "%s: servers do not disagree", name)
			continue
		}
		disagreements++
		assert.ErrorIf(t, harmless[name] == "", "%s: %s is %s here, and servers read %v", name, columns[1], got, answers)
	}
	assert.Equal(t, disagreements, len(harmless), "disagreements")
}

// agree reports whether all servers that read a value read this one, and whether none does where it is absent.
func agree(value Value, answers map[string]int) bool {
	for answer := range answers {
		if answer != "none" && answer != "error" && (value.Kind() == KindAbsent || answer != "s:"+value.Text()) {
			return false
		}
	}
	return true
}

func unquoteJSON(text string) (unquoted string, err error) {
	err = json.Unmarshal([]byte(text), &unquoted)
	return unquoted, err
}
