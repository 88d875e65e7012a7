package rule

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// pathRequest is a request of a path that is percent-decoded.
func pathRequest(t *testing.T, path string) (*http.Request, *caddy.Replacer) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.URL = &url.URL{Path: path}
	repl := caddy.NewEmptyReplacer()
	return r.WithContext(context.WithValue(r.Context(), caddy.ReplacerCtxKey, repl)), repl
}

// counts reports whether a rule with matchers counts a request of a path.
func counts(t *testing.T, path string, countIf bool, set ...any) bool {
	t.Helper()
	r := Rule{
		Policy: assert.NoError(limiter.NewPolicy(limiter.Settings{Name: "p", Algorithm: limiter.FixedWindow, Limit: 1, Window: 1e9}))(t),
		Key:    assert.NoError(ParseKey("everyone", exact))(t),
		Match:  caddyhttp.MatcherSets{set},
	}
	r.Numbers.Weight = 1
	if countIf {
		r.CountIf = &caddyhttp.ResponseMatcher{StatusCode: []int{401}}
	}
	var e Evaluation
	request, repl := pathRequest(t, path)
	assert.FatalIf(t, NewSet([]Rule{r}).Evaluate(request, repl, &e) != nil, "refused")
	return len(e.Enforced) == 1
}

// loginSpellings are paths that some router takes for /login.
var loginSpellings = []string{
	"/login", "/Login", "/login/", "/login//", "//login", "/./login", "/x/../login", "/x;/../login", "/login;x", "/login;x.json", "/;x/login",
	"/;/login", "/lOGIN/", "/index.php/login", "/INDEX.php/login/", "/login\n", "/login\xff",
}

func TestMatch_pathForms(t *testing.T) {
	login := &caddyhttp.MatchPath{"/login"}
	for _, path := range loginSpellings {
		assert.ErrorIf(t, !counts(t, path, false, login), "%s is not counted", path)
	}
	for _, path := range []string{"/", "/login-help", "/login/help", "/loginx", "/x/login", "/login.json"} {
		assert.ErrorIf(t, counts(t, path, false, login), "%s is counted", path)
	}
	for _, path := range []string{"/wp-login.php", "/wp-login.php/", "/wp-login.php/x", "//WP-login.PHP;a"} {
		assert.ErrorIf(t, !counts(t, path, false, &caddyhttp.MatchPath{"/wp-login.php"}), "%s is not counted", path)
	}
}

// TestMatch_methodLetters has a method meet in any letters, and be left out within not only as it is written.
func TestMatch_methodLetters(t *testing.T) {
	post, get := &caddyhttp.MatchMethod{"POST"}, &caddyhttp.MatchMethod{"GET"}
	for _, test := range []struct {
		method string
		set    any
		want   bool
	}{
		{"POST", post, true},
		{"post", post, true},
		{"Post", post, true},
		{"GET", post, false},
		{"POSTS", post, false},
		{"GET", &caddyhttp.MatchNot{MatcherSets: []caddyhttp.MatcherSet{{get}}}, false},
		{"get", &caddyhttp.MatchNot{MatcherSets: []caddyhttp.MatcherSet{{get}}}, true},
	} {
		selected := newSelector("match", caddyhttp.MatcherSets{{test.set}}, false)
		request, _ := pathRequest(t, "/")
		request.Method = test.method
		for name, ask := range map[string]func() (bool, error){
			"by Caddy's way": func() (bool, error) { return selected.sets.AnyMatchWithError(request) },
			"by conditions": func() (bool, error) {
				answer, err := (&matching{request: request}).any(selected.conditions)
				return answer == isTrue, err
			},
		} {
			got, err := ask()
			assert.Must(t, err)
			assert.Equal(t, got, test.want, "%s of %v %s", test.method, test.set, name)
		}
	}
}

// TestMatch_pathSlash has patterns with a slash at the end meet what routers take for their path.
func TestMatch_pathSlash(t *testing.T) {
	for pattern, paths := range map[string][]string{
		"/admin/login/": {"/admin/login/", "/admin/login", "/admin//login", "/admin/login/;x", "/admin/login;x/", "/Admin/Login//"},
		"/api/*":        {"/api/", "/api/a", "/x/..;/api/", "/x/..;/api/;y", "/;/api/a", "/index.php/api/a"},
		"/":             {"/", "//", "/;x"},
	} {
		for _, path := range paths {
			assert.ErrorIf(t, !counts(t, path, false, &caddyhttp.MatchPath{pattern}), "%s is not counted by %s", path, pattern)
		}
	}
	assert.ErrorIf(t, counts(t, "/api", false, &caddyhttp.MatchPath{"/api/*"}), "/api is counted by /api/*")
}

// TestMatch_pathExtensions has extensions be of the path only where responses decide what counts: there a path too many
// costs nothing.
func TestMatch_pathExtensions(t *testing.T) {
	login := &caddyhttp.MatchPath{"/login"}
	for _, path := range []string{"/login.json", "/Login.zzz", "/login.json/", "/login.", "//login.x;y"} {
		assert.ErrorIf(t, !counts(t, path, true, login), "%s is not counted with count_if", path)
		assert.ErrorIf(t, counts(t, path, false, login), "%s is counted without count_if", path)
	}
	assert.ErrorIf(t, counts(t, "/login.x/y", true, login), "a path below an extension is counted")
	assert.ErrorIf(t, counts(t, "/a.png", true, &caddyhttp.MatchPath{"/a*"}) != true, "a wildcard is as it was")
}

// TestMatch_pathWithinNot leaves a path out only if all routers see one that is left out.
func TestMatch_pathWithinNot(t *testing.T) {
	static := &caddyhttp.MatchNot{MatcherSets: []caddyhttp.MatcherSet{{&caddyhttp.MatchPath{"/static/*"}}}}
	for path, want := range map[string]bool{
		"/login": true, "/static/a.css": false, "/Static/a.css": false, "/static/..;/login": true, "/static/;/../../login": true,
		"/static//a.css": false, "/x/..;/static/a.css": true,
	} {
		assert.Equal(t, counts(t, path, false, static), want, "whether %s is counted", path)
	}
	doubly := &caddyhttp.MatchNot{MatcherSets: []caddyhttp.MatcherSet{{static}}}
	assert.ErrorIf(t, !counts(t, "/x/..;/static/a.css", false, doubly), "not within not is no positive place")
}

// TestMatch_pathMemory wants no form of a path that all routers see as it is.
func TestMatch_pathMemory(t *testing.T) {
	m := pathMatcher{paths: caddyhttp.MatchPath{"/login"}}
	r, _ := pathRequest(t, "/api/v1/users")
	allocations := testing.AllocsPerRun(10, func() { _, _ = m.matches(r, formsOf(r)) })
	caddys := testing.AllocsPerRun(10, func() { _, _ = m.paths.MatchWithError(r) })
	assert.Equal(t, allocations, caddys, "allocations of a plain path")
}
