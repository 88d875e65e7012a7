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

// TestCanYield_request has requests with any texts in all places: each key that a placeholder makes of them is possible, with
// raw_key too.
func TestCanYield_request(t *testing.T) {
	templates := []string{
		"{http.request.header.X-Api-Key}", "{http.request.header.Authorization}", "{http.request.cookie.session}",
		"{http.request.uri.query.token}", "{http.request.uri.path}", "{http.request.uri}", "{http.request.host}",
		"{http.request.hostport}", "{http.redis_ratelimit.credential}", "{http.redis_ratelimit.credential.user}",
	}
	text := rapid.OneOf(rapid.StringMatching(`[ -~]{0,6}`), rapid.StringN(0, 8, 30),
		rapid.SampledFrom([]string{"Bearer ABC", "basic QWxpY2U6cHc=", "a%20b", `"abc"`, "abc,def", "é", "a b", "eyJh.eyJi.c2ln"}))
	rapid.Check(t, func(rt *rapid.T) {
		r, repl := sent(t, "/")
		r.URL.Path, r.URL.RawQuery = "/"+text.Draw(rt, "path"), "token="+text.Draw(rt, "query")
		r.Host = rapid.OneOf(text, rapid.SampledFrom([]string{"App.Example.:443", "[::1]", "[fe80::1%eth0]:80", "::1"})).Draw(rt, "host")
		r.Header = http.Header{
			"Cookie": {"session=" + text.Draw(rt, "cookie")}, "X-Api-Key": {text.Draw(rt, "key")}, "Authorization": {text.Draw(rt, "credential")},
		}
		if rapid.Bool().Draw(rt, "has one credential") {
			r.Header.Del("Authorization")
		}
		for _, template := range templates {
			for _, raw := range []bool{false, true} {
				rule := Rule{Key: assert.NoError(ParseKey(template, exact))(t)}
				rule.Key.Raw = raw
				key := rule.Key.key(&request{Request: r, repl: repl})
				if key != (limiter.EncodedKey{}) && !rule.CanYield(key) {
					rt.Fatalf("%s, raw_key %v: makes %q, which is said to be impossible", template, raw, key)
				}
			}
		}
	})
}

// TestCanYield_raw has keys that no request has with raw_key: their values are unreadable.
func TestCanYield_raw(t *testing.T) {
	for template, test := range map[string]struct{ possible, mistaken []string }{
		"{http.request.header.X-Api-Key}":         {[]string{"ABC", "a,b", " a"}, []string{"a\x01", "\u00a0a", " "}},
		"{http.request.header.Authorization}":     {[]string{"Bearer ABC", "bearer  abc"}, []string{"Bearer abc;1", `Bearer "abc"`, "Basic !"}},
		"{http.request.cookie.session}":           {[]string{"ABC", "%2561BC", "s:x"}, []string{"a b", "a,b", "j:1", "%25zz", `"a"`, "é", "a;b"}},
		"{http.request.uri.query.token}":          {[]string{"ABC", "a b", "a;b", "é"}, []string{"a\x01", "\xff"}},
		"{http.request.uri.path}":                 {[]string{"/A/b.js", "/"}, []string{"a", "/a\x01"}},
		"{http.request.uri}":                      {[]string{"/A?x=1", "/%2541"}, []string{"/%25zz", "/%25ff", "a"}},
		"{http.request.host}":                     {[]string{"App.Example", "::1"}, []string{"a b", "a%25b"}},
		"{http.redis_ratelimit.credential}":       {[]string{"abc", "a,b"}, []string{"ABC", "\x01"}},
		"{http.redis_ratelimit.credential.user}":  {[]string{"bob"}, []string{"Bob"}},
		"{http.redis_ratelimit.form.email}":       {[]string{"Bob"}, []string{"Bob "}},
		"{http.vars.x}":                           {[]string{"Bob ", "\x01"}, nil},
		"a:{http.request.cookie.session}:{p.any}": {[]string{"a:ABC: "}, []string{"a:a b:x"}},
	} {
		rule := Rule{Key: assert.NoError(ParseKey(template, exact))(t)}
		rule.Key.Raw = true
		for _, key := range test.possible {
			assert.ErrorIf(t, !rule.CanYield(limiter.AsEncoded(key)), "%s cannot make %q", template, key)
		}
		for _, key := range test.mistaken {
			assert.ErrorIf(t, rule.CanYield(limiter.AsEncoded(key)), "%s makes %q", template, key)
		}
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
		{"{http.redis_ratelimit.credential}", true, "Bearer ABC", "abc", false},
		{"{http.redis_ratelimit.credential}", false, "abc,def", "abc,def", true},
		{"{http.request.header.Authorization}", true, "Bearer ABC", "Bearer ABC", true},
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
