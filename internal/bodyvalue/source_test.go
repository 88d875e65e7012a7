package bodyvalue

import (
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

func TestParseSource(t *testing.T) {
	for _, test := range []struct{ name, wrong string }{
		{"http.redis_ratelimit.json.model", ""},
		{"http.redis_ratelimit.json.user.email", ""},
		{`http.redis_ratelimit.json.a\.b.\_`, ""},
		{"http.redis_ratelimit.json._", ""},
		{"http.redis_ratelimit.form.email", ""},
		{"http.redis_ratelimit.form.user[email]", ""},
		{"http.redis_ratelimit.form.user.email ", ""},
		{"http.redis_ratelimit.form.*", ""},
		{"http.redis_ratelimit.json.", "no path stands behind"},
		{"http.redis_ratelimit.json.a\xff", "UTF-8"},
		{"http.redis_ratelimit.json.a..b", "empty"},
		{"http.redis_ratelimit.json.a.", "empty"},
		{"http.redis_ratelimit.json.a|b", `and \|`},
		{"http.redis_ratelimit.json.a+b", `and \+`},
		{"http.redis_ratelimit.json.a-b", ""},
		{"http.redis_ratelimit.json.2*b", `\*`},
		{"http.redis_ratelimit.json.a[0]", "within an array"},
		{"http.redis_ratelimit.json.{a}", `\{`},
		{"http.redis_ratelimit.json.$.a", `\$`},
		{`http.redis_ratelimit.json.a\`, "backslash"},
		{"http.redis_ratelimit.json." + strings.Repeat("a", 257), "256 bytes"},
		{"http.redis_ratelimit.form.", "no name stands behind"},
		{"http.redis_ratelimit.form.[]", "nothing but separators"},
		{"http.redis_ratelimit.form._", "nothing but separators"},
		{"http.redis_ratelimit.form.a\xff", "UTF-8"},
	} {
		source, err := ParseSource(test.name)
		assert.ErrorIf(t, !IsPlaceholder(test.name), "%q is no name of a source", test.name)
		if test.wrong == "" {
			assert.ErrorIf(t, err != nil || source.name != test.name, "%q: %v", test.name, err)
			continue
		}
		assert.ErrorIf(t, err == nil || !strings.Contains(err.Error(), test.wrong), "%q: %v, want: %s", test.name, err, test.wrong)
	}
	for _, name := range []string{"", "json.a", "http.redis_ratelimit.json", "http.redis_ratelimit.remaining", "http.request.body", "{json.a}"} {
		assert.ErrorIf(t, IsPlaceholder(name), "%q is the name of a source", name)
		_, err := ParseSource(name)
		assert.ErrorIf(t, err == nil, "%q is a source", name)
	}
}
