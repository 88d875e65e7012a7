package rule

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// TestCanYield_own has any template and values: the key that they make is possible, and stays so read back.
func TestCanYield_own(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		template, placeholders := templateOf(pieces(rt))
		parsed, err := ParseKey(template, exact)
		if err != nil {
			rt.Skip()
		}
		values := map[string]string{}
		for i := range placeholders {
			values[fmt.Sprint("p.", i)] = rapid.StringN(1, 12, 40).Draw(rt, "value")
		}
		r, repl := keyRequest("192.0.2.1", values)
		rule := Rule{Key: parsed}
		if key := parsed.key(&request{Request: r, repl: repl}); !rule.CanYield(key) {
			rt.Fatalf("template %q with %q makes %q, which is said to be impossible", template, values, key)
		}
	})
}

func TestCanYield(t *testing.T) {
	for _, test := range []struct {
		template           string
		possible, mistaken []string
	}{
		{"{http.vars.client_ip}", []string{"203.0.113.7", "2001:db8:1:2::/64", "@", "64:ff9b:1::5"},
			[]string{"", "acme", "2001:db8:1:2::5", "2001:DB8:1:2::/64", "2001:db8:1:2::5/64", "2001:db8::/48", "203.0.113.7/32", "203.0.113.0/24", "203.0.113.7:80", "%ip:203.0.113.7", "%~" + strings.Repeat("a", 64), " 203.0.113.7"}},
		{"{http.vars.client_ip}:{p.0}", []string{"203.0.113.7:/login", "2001%3Adb8%3A%3A/64:x"},
			[]string{"203.0.113.7", "203.0.113.7:", "acme:/login", "2001:db8::/64:x", "203.0.113.7:a:b", "%ip:2001:db8::/64"}},
		{"{p.0}", []string{"acme", "50%25", "a:b", "%ip:203.0.113.7", "%ip:2001:db8::/64", "%~" + strings.Repeat("a", 64)},
			[]string{"", "50%", "%2f", "%ip:acme", "%ip:2001:db8::5", "%ip:"}},
		{"user:{p.0}", []string{"user:acm%65"}, []string{"user:acme", "acme", "user", "user:", "user:user"}},
		{"everyone", []string{"everyone"}, []string{"every", "everyone2", "", "%ip:203.0.113.7"}},
		{`50%\{a\}`, []string{"50%%%(a%)"}, []string{"50%{a}"}},
	} {
		parsed := assert.NoError(ParseKey(test.template, Prefixes{IPv4: 32, IPv6: 64}))(t)
		rule := Rule{Key: parsed, OnEmptyKey: EmptyKeyClientIP}
		for _, key := range test.possible {
			assert.ErrorIf(t, !rule.CanYield(limiter.AsEncoded(key)), "%s cannot make %q", test.template, key)
		}
		for _, key := range test.mistaken {
			assert.ErrorIf(t, rule.CanYield(limiter.AsEncoded(key)), "%s makes %q", test.template, key)
		}
		rule.OnEmptyKey = EmptyKeySkip
		assert.ErrorIf(t, rule.CanYield(limiter.AsEncoded("%ip:203.0.113.7")), "%s counts an empty key", test.template)
	}
}
