package bodyvalue

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// harmlessReaders are cases in which a reader of another value may be passed over, with the reason.
var harmlessReaders = map[string]string{
	"string doc": "Ruby finds a name within a string, and nothing but the name",
}

// TestRequest_readers compares with what frameworks read: a value must be that of all of them.
func TestRequest_readers(t *testing.T) {
	for _, row := range rows(t, "readers.txt", 6) {
		name, body, want, answers := row[0], unescaped(t, row[2]), unescaped(t, row[3]), strings.Split(row[5], " | ")
		r := requestPlan(t, row[1]).readRequest([]byte(body))
		got := reasonedResult(r)
		assert.Equal(t, got, want, "%s: %q", name, body)
		if r.Value(0).Kind() == KindUnreadable || harmlessReaders[name] != "" {
			continue
		}
		for _, answer := range answers {
			assert.ErrorIf(t, !isAnswer(t, r, answer), "%s: %q is %s, and a reader reads %s", name, body, got, answer)
		}
	}
}

// unescaped returns a text of the file without Go's escapes.
func unescaped(t *testing.T, text string) string {
	t.Helper()
	return assert.NoError(strconv.Unquote(`"` + strings.ReplaceAll(text, `"`, `\"`) + `"`))(t)
}

// isAnswer reports whether the first path has what a reader has read.
func isAnswer(t *testing.T, r *JSONReader, answer string) bool {
	t.Helper()
	value := r.Value(0)
	if value.Kind() == KindAbsent {
		return answer == "-"
	}
	kind, text, _ := strings.Cut(answer, ":")
	switch content, _, _ := r.read(0); content {
	case contentString:
		var decoded string
		return kind == "s" && json.Unmarshal([]byte(text), &decoded) == nil && decoded == value.Text()
	case contentNumber:
		want, ok := new(big.Rat).SetString(text)
		return kind == "n" && ok && referenceRat(t, value.Text()).Cmp(want) == 0
	}
	return kind == "a" && text == value.Text()
}
