package requestvalue

import (
	"net/url"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
)

func token(text string) bodyvalue.Value { return Query(text, ParseName("token")) }

func TestQuery(t *testing.T) {
	wantShown(t, token, map[string]string{
		"":                     "-",
		"x=y":                  "-",
		"token":                "-",
		"token=":               "-",
		"token=aBc":            "abc",
		"t%6fken=%61bc":        "abc",
		"token=a+c":            "a c",
		"token=abc%20":         "abc",
		"token=b%C3%B3b":       "bob",
		"x=1;y=2&token=abc":    "abc",
		"x=%zz&token=abc":      "abc",
		"token=abc&_token=x":   "abc",
		"token=abc&token.op=x": "abc",
		"token=abc&token_x=x":  "abc",
		"token=abc;":           "!semicolon",
		"token=abc;x=1":        "!semicolon",
		"x=1;token=abc":        "!semicolon",
		"x=1&amp;token=abc":    "!semicolon",
		"token=abc%":           "!percent",
		"token=abc%zz":         "!percent",
		"token=abc%09":         "!control",
		"token=abc%00":         "!control",
		"token=abc%ff":         "!utf8",
		"token=abc#x":          "!fragment", // Express, Hono, Django, Flask and others read abc
		"token=abc#":           "!fragment",
		"token=abc%23x":        "abc#x",
		"token=abc&x=1#y":      "abc",
		"x=1#&token=abc":       "abc",
		"token=abc&token=abd":  "!repeated",
		"token=abc&token=abc":  "!repeated",
		"token=abc&TOKEN=abd":  "!conflict",
		"TOKEN=abc":            "!similar_name",
		"token[]=abc":          "!similar_name",
		"token[a]=abc":         "!similar_name",
		"token]=abc":           "!similar_name",
		"[token]=abc":          "!similar_name",
		"+token=abc":           "!similar_name",
		"%20token=abc":         "!similar_name",
		"token%00=abc":         "!similar_name",
		"token%00x=abc":        "!similar_name",
		"?token=abc":           "!similar_name",
		"token=abc&" + strings.Repeat("&", maxParameters): "!parameters",
		strings.Repeat("x=1&", 1_100) + "token=abc":       "abc",
	})
	assert.Equal(t, shown(Query("user.id=1", ParseName("user_id"))), "!similar_name", "of the name that PHP makes user_id of")
	assert.Equal(t, shown(Query("q=a&q.op=or", ParseName("q"))), "a", "beside a name with a dot")
}

// FuzzQuery wants a parameter that net/url reads to be read as that text, folded, or to be unreadable.
func FuzzQuery(f *testing.F) {
	f.Add("token=abc&x=y")
	f.Add("t%6fken=a+c;x")
	f.Fuzz(func(t *testing.T, query string) {
		values, _ := url.ParseQuery(query)
		sent := values["token"]
		if len(sent) == 0 || sent[0] == "" {
			return
		}
		want := bodyvalue.FoldKey(sent[0])
		switch v := token(query); v.Kind() {
		case bodyvalue.KindAbsent:
			assert.ErrorIf(t, want != "", "%q is absent, net/url reads %q", query, sent)
		case bodyvalue.KindText:
			assert.ErrorIf(t, len(sent) > 1 || v.Text() != want, "%q is %q, net/url reads %q", query, v.Text(), sent)
		}
	})
}
