package rule

import (
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// FuzzParseKey gives all placeholders of a key one value, then another, and wants two keys.
func FuzzParseKey(f *testing.F) {
	for _, text := range []string{"{p.0}", "{p.0}|{p.1}", "{p.0}{p.1}", `\{a\}{p.0}%41`, "{http.vars.client_ip}", "{", "a}b", `\`, `\{`, "{a.{b}"} {
		f.Add(text, "a", "a|b")
		f.Add(text, "%7C", "|")
		f.Add(text, strings.Repeat("x", 129), strings.Repeat("x", 130))
	}
	f.Fuzz(func(t *testing.T, text, first, second string) {
		template, err := ParseKey(text, exact)
		if err != nil {
			redistest.ErrorIf(t, !strings.Contains(err.Error(), "key"), "the error does not name its option: %v", err)
			return
		}
		placeholders := 0
		values := [2]map[string]string{{}, {}}
		for _, part := range template.parts {
			if part.address || part.field.kind == headerField {
				return // whose values come from elsewhere
			}
			if part.Name != "" {
				placeholders++
				values[0][part.Name], values[1][part.Name] = first, second
			}
		}
		var keys [2]string
		for i := range keys {
			r, repl := keyRequest("192.0.2.1", values[i])
			keys[i] = template.Key(r, repl).String()
			redistest.ErrorIf(t, len(keys[i]) > 128 || strings.ContainsAny(keys[i], "{}"), "the key %q is too long or has braces", keys[i])
			again := template.Key(r, repl).String()
			redistest.ErrorIf(t, again != keys[i], "a request has the keys %q and %q", keys[i], again)
		}
		if placeholders > 0 && first != second && keys[0] == keys[1] {
			t.Errorf("key %q is %q for %q and for %q", text, keys[0], first, second)
		}
	})
}
