package rule

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
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
		{"{http.redis_ratelimit.form.email}", []string{"bob@example.com", "50%25", "%ip:203.0.113.7", "%~" + strings.Repeat("a", 64)},
			[]string{"", "Bob@example.com", "bob ", "bób", "a\x01b", "\xff"}},
		{"{http.vars.client_ip}|{http.redis_ratelimit.json.user}", []string{"203.0.113.7|bob"}, []string{"203.0.113.7|Bob", "203.0.113.7|", "|bob"}},
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

// TestFoldKey has keys that operators give, and the keys that they mean.
func TestFoldKey(t *testing.T) {
	const email = "{http.redis_ratelimit.form.email}"
	long := strings.Repeat("x", 200)
	for _, test := range []struct {
		template    string
		raw         bool
		given, want string
		same        bool
	}{
		{email, false, "Bob@Example.com ", "bob@example.com", false},
		{email, false, "bób@example.com", "bob@example.com", false},
		{email, false, "bob@example.com", "bob@example.com", true},
		{email, false, "50%25 Bob", "50%25 bob", false},
		{email, false, "\uff05Bob", "%25bob", false}, // a full-width %
		{email, false, "Bob%2f", "Bob%2f", false},
		{email, false, "Bob" + long, "bob" + long, false},
		{email, false, " \t", " \t", false},
		{email, false, "", "", false},
		{email, false, "A\x01b", "A\x01b", false},
		{email, false, "%ip:203.0.113.7", "%ip:203.0.113.7", true},
		{email, false, "%~" + strings.Repeat("a", 64), "%~" + strings.Repeat("a", 64), true},
		{email, true, "Bob@Example.com", "Bob@Example.com", true},
		{email, true, "Bob ", "Bob ", false},
		{"User:" + email, false, "User:Bob", "User:bob", false},
		{"User:" + email, false, "user:Bob", "user:Bob", false},
		{"{http.vars.client_ip}|" + email, false, "203.0.113.7|Bob|", "203.0.113.7|Bob|", false},
		{"{http.vars.client_ip}|" + email, false, "203.0.113.7|Bob%7C", "203.0.113.7|bob%7C", false},
		{"{http.vars.client_ip}|" + email, false, "2001:DB8::|Bob", "2001:DB8::|Bob", false},
		{"{p.0}" + email, false, "Acme%+Bob", "Acme%+bob", false},
		{"{p.0}-{p.1}", false, "Acme-Bob", "Acme-Bob", true},
	} {
		rule := Rule{Key: assert.NoError(ParseKey(test.template, exact))(t), OnEmptyKey: EmptyKeyClientIP}
		rule.Key.Raw = test.raw
		folded, same := rule.FoldKey(test.given)
		assert.ErrorIf(t, folded != test.want || same != test.same, "%s: %q is %q, %v; want %q, %v",
			test.template, test.given, folded, same, test.want, test.same)
	}
}

// TestFoldKey_as_requests has any value of a body: the value as it is written means the key that a request with it has.
func TestFoldKey_as_requests(t *testing.T) {
	parsed := assert.NoError(ParseKey("a:{http.redis_ratelimit.json.user}:{p.0}", exact))(t)
	rules := NewSet([]Rule{{Key: parsed, Policy: assert.NoError(limiter.NewPolicy(limiter.Settings{Name: "x", Limit: 1, Window: time.Minute}))(t)}})
	rule := &rules.Rules[0]
	asJSON, reason := rules.BodyPlan.TypeOf(http.Header{"Content-Type": {"application/json"}})
	assert.Equal(t, reason, bodyvalue.ReasonNone, "the reason of JSON")
	rapid.Check(t, func(rt *rapid.T) {
		user := rapid.StringN(1, 30, 60).Draw(rt, "user")
		other := rapid.StringN(1, 5, 10).Draw(rt, "other")
		r, repl := keyRequest("192.0.2.1", map[string]string{"p.0": other})
		body := assert.NoError(json.Marshal(map[string]string{"user": user}))(t)
		key := rule.Key.key(&request{Request: r, repl: repl, body: rules.BodyPlan.Read(asJSON, "", body)})
		if key == (limiter.EncodedKey{}) {
			rt.Skip()
		}
		given := append([]byte("a:"), rule.Key.appendEncoded(nil, user)...)
		given = rule.Key.appendEncoded(append(given, ':'), other)
		folded, _ := rule.FoldKey(string(given))
		if limiter.AsEncoded(folded) != key || !rule.CanYield(key) {
			rt.Fatalf("%q is folded to %q; the request's key is %q", given, folded, key)
		}
	})
}
