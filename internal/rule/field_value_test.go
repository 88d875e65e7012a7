package rule

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// sent is what differs in a request: its target, and the lines of its header.
func sent(t testing.TB, target string, lines ...string) (*http.Request, *caddy.Replacer) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, target, http.NoBody)
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header.Add(name, value)
	}
	repl := caddy.NewReplacer()
	r = caddyhttp.PrepareRequest(r, repl, httptest.NewRecorder(), nil)
	caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, "192.0.2.1")
	return r.WithContext(context.WithValue(r.Context(), caddy.ReplacerCtxKey, repl)), repl
}

// keysOfSent counts the keys that requests have by a template.
func keysOfSent(t *testing.T, template string, requests [][]string) map[string]int {
	t.Helper()
	parsed := assert.NoError(ParseKey(template, exact))(t)
	keys := map[string]int{}
	for _, words := range requests {
		r, repl := sent(t, words[0], words[1:]...)
		keys[parsed.key(&request{Request: r, repl: repl}).String()]++
	}
	return keys
}

// TestKey_spellings has requests of which a server reads one and the same value: each list is of one quota, or without one.
func TestKey_spellings(t *testing.T) {
	var bearers, cookies, hosts, paths [][]string
	for i := range 40 {
		scheme, encoded := []byte("bearer"), ""
		for j := range scheme {
			if i>>j&1 == 1 {
				scheme[j] -= 'a' - 'A'
			}
			if letter := "abcdef"[j]; i>>j&1 == 1 {
				encoded += fmt.Sprintf("%%%02x", letter)
			} else {
				encoded += string(letter)
			}
		}
		bearers = append(bearers, []string{"/", "Authorization: " + string(scheme) + " abc"})
		cookies = append(cookies, []string{"/", "Cookie: session=" + encoded})
		paths = append(paths, []string{fmt.Sprintf("/login.%d", i)}, []string{"/login" + strings.Repeat("/", i)})
		hosts = append(hosts, []string{"/", "Host: " + strings.Replace("app.example", "a", []string{"a", "A"}[i%2], 1) + strings.Repeat(".", i%3)})
	}
	for template, test := range map[string]struct {
		requests [][]string
		want     string
	}{
		"{http.request.header.Authorization}": {bearers, "abc"},
		"{http.request.cookie.session}":       {cookies, "abcdef"},
		"{http.request.uri.path}":             {paths, "/login"},
		"{http.request.host}":                 {hosts, "app.example"},
	} {
		keys := keysOfSent(t, template, test.requests)
		assert.ErrorIf(t, len(keys) != 1 || keys[test.want] == 0, "%s: keys %v, want %s alone", template, keys, test.want)
	}
	unreadable := map[string][][]string{
		"{http.request.cookie.session}":       {{"/", `Cookie: session="a\bc"`}},
		"{http.request.uri.query.token}":      {{"/?token=abc;"}, {"/?x=1;token=abc"}, {"/?token[]=abc"}},
		"{http.request.header.Authorization}": {{"/", "Authorization: Bearer abc;1"}, {"/", `Authorization: Bearer "abc"`}},
		"{http.request.header.X-Api-Key}":     {{"/", "X-Api-Key: abc\xa0"}, {"/", "X-Api-Key: abc\u00a0"}},
	}
	for template, requests := range unreadable {
		keys := keysOfSent(t, template, requests)
		assert.ErrorIf(t, len(keys) != 1 || keys[""] == 0, "%s: keys %v, want none", template, keys)
	}
}

// TestKey_spellings_raw leaves the text of values that are readable, and no value of the others.
func TestKey_spellings_raw(t *testing.T) {
	for template, test := range map[string][3]string{ // target, header, key
		"{http.request.header.Authorization}": {"/", "Authorization: bearer ABC", "bearer ABC"},
		"{http.request.cookie.session}":       {"/", "Cookie: session=%61BC", "%2561BC"},
		"{http.request.uri.query.v}":          {"/?v=dQw4", "X: y", "dQw4"},
		"{http.request.uri.path}":             {"/A/b.js", "X: y", "/A/b.js"},
		"{http.request.host}":                 {"/", "Host: App.Example", "App.Example"},
		"{http.request.uri.query.token}":      {"/?token=abc;", "X: y", ""},
	} {
		parsed := assert.NoError(ParseKey(template, exact))(t)
		parsed.Raw = true
		r, repl := sent(t, test[0], test[1])
		assert.Equal(t, parsed.key(&request{Request: r, repl: repl}).String(), test[2], "the raw key of %s", template)
	}
}

// TestKey_unreadable has each mode of on_empty_key meet a value that is unreadable, one that is not there beside a similar
// name, and one that is not there.
func TestKey_unreadable(t *testing.T) {
	parsed := assert.NoError(ParseKey("{http.request.cookie.session}", exact))(t)
	for _, test := range []struct {
		cookie                 string
		clientIP, skip, reject Status
	}{
		{"x=y", Counts, Skipped, Rejected},
		{"Session=abc", Counts, Counts, Rejected},
		{`session="a\bc"`, Counts, Rejected, Rejected},
		{"session=a; session=b", Counts, Rejected, Rejected},
		{"session=\u00e9", Counts, Rejected, Rejected}, // which Go drops, with raw_key
	} {
		parsed.Raw = strings.HasSuffix(test.cookie, "\u00e9")
		for mode, want := range map[EmptyKey]Status{EmptyKeyClientIP: test.clientIP, EmptyKeySkip: test.skip, EmptyKeyReject: test.reject} {
			r, repl := sent(t, "/", "Cookie: "+test.cookie)
			set := &Set{}
			key, status, _ := set.keyOf(&Rule{Key: parsed, OnEmptyKey: mode}, &request{Request: r, repl: repl}, new(Evaluation))
			assert.Equal(t, status, want, "the status of %s with %s", test.cookie, mode)
			assert.ErrorIf(t, status == Counts && !IsAddressKey(key), "%s counts by %s", test.cookie, key)
		}
	}
}

// TestRule_FoldKey_spellings has operators name keys as clients send them.
func TestRule_FoldKey_spellings(t *testing.T) {
	for template, table := range map[string]map[string]string{
		"{http.request.header.Authorization}": {"Bearer ABC": "abc", "abc": "abc"},
		"{http.request.uri.path}":             {"/Login/": "/login", "/login.json": "/login"},
		"{http.request.host}":                 {"App.Example.:443": "app.example"},
		"{http.request.cookie.session}":       {"ABC": "abc", "a c": "a c", "%61bc": "%61bc"},
		"{http.request.header.X-Api-Key}":     {"ABC": "abc"},
	} {
		r := Rule{Key: assert.NoError(ParseKey(template, exact))(t)}
		for named, want := range table {
			encoded := string(r.Key.appendEncoded(nil, named))
			folded, same := r.FoldKey(encoded)
			assert.Equal(t, folded, string(r.Key.appendEncoded(nil, want)), "the key that %q names by %s", named, template)
			assert.Equal(t, same, named == want, "whether %q is the key by %s", named, template)
		}
	}
}

func TestCredential(t *testing.T) {
	const key = "{http.redis_ratelimit.credential}"
	want := map[string]int{"abc": 5, "": 2}
	got := keysOfSent(t, key, [][]string{
		{"/", "Authorization: Bearer ABC"}, {"/", "X-Api-Key: abc"}, {"/?access_token=abc"}, {"/?api_key=abc&x=y"},
		{"/?access_token=abc", "Authorization: token abc"}, {"/?access_token=abd", "Authorization: Bearer abc"}, {"/"},
	})
	assert.ErrorIf(t, fmt.Sprint(got) != fmt.Sprint(want), "keys %v, want %v", got, want)
	user := keysOfSent(t, "{http.redis_ratelimit.credential.user}", [][]string{
		{"/", "Authorization: Basic QWxpY2U6cHc="}, {"/", "Authorization: basic YWxpY2U6b3RoZXI"}, {"/", "Authorization: Bearer abc"},
	})
	assert.ErrorIf(t, user["alice"] != 2 || user[""] != 1, "keys of users %v", user)
	_, err := ParsePlaceholder("limit", key)
	assert.ErrorIf(t, err == nil, "a credential stands in a limit")
}
