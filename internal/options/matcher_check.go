package options

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// checkMatchers refuses values in a set of matchers that no request has. In a Caddyfile all words of a line are values of
// the matcher at its beginning, also the name of a second matcher.
func checkMatchers(option string, set caddy.ModuleMap) error {
	for _, m := range []struct {
		name, noun string
		impossible func(string) bool
	}{{"method", "method", isNoMethod}, {"path", "path", isNoPath}, {"host", "host", isNoHost}} {
		values := valuesOf(set, m.name)
		i := slices.IndexFunc(values, m.impossible)
		if i < 0 {
			continue
		}
		if i > 0 && isMatcher(values[i-1]) {
			i--
		}
		if word := values[i]; i > 0 && isMatcher(word) {
			return fmt.Errorf("%s: %s %s: no %s, but a matcher, which needs a line of its own: write the block %s { ... } with the lines %s, and %s",
				option, m.name, word, m.noun, option, m.name+" "+strings.Join(values[:i], " "), strings.Join(values[i:], " "))
		}
		return fmt.Errorf("%s: %s %s: no request has such a %s; write %s", option, m.name, values[i], m.noun, matchable(m.name, values[i]))
	}
	return nil
}

// valuesOf returns the values of a matcher in a set; none if they are no list of texts, which Caddy itself refuses.
func valuesOf(set caddy.ModuleMap, matcher string) (values []string) {
	if json.Unmarshal(set[matcher], &values) != nil {
		return nil
	}
	return values
}

func isMatcher(word string) bool {
	_, err := caddy.GetModule("http.matchers." + word)
	return err == nil
}

var upperCaseToken = regexp.MustCompile(`^[A-Z][A-Z0-9_-]*$`)

// isNoMethod reports whether a value of the matcher, which compares case, is no method.
func isNoMethod(value string) bool { return !upperCaseToken.MatchString(value) }

// isNoPath reports whether no request has a path of a pattern: all begin with a slash.
func isNoPath(pattern string) bool { return pattern == "" || strings.IndexAny(pattern, `/*{?[\`) != 0 }

func isNoHost(value string) bool {
	return value == "" || value[0] != '{' && strings.Contains(value, "/")
}

// matchable returns what to write instead of a value that no request has.
func matchable(matcher, value string) string {
	switch method := strings.ToUpper(value); {
	case matcher == "path":
		return "a path that begins with /, such as /" + value
	case matcher == "host":
		host := strings.TrimPrefix(strings.TrimPrefix(value, "https://"), "http://")
		host, _, _ = strings.Cut(host, "/")
		return "a name without scheme and path, such as " + cmp.Or(host, "example.com")
	case upperCaseToken.MatchString(method):
		return "methods in upper case, such as " + method
	}
	return "methods in upper case with spaces between, such as GET HEAD"
}

// matchesPath reports whether Caddy's path matcher matches a path, which is percent-encoded as in a request.
func matchesPath(patterns []string, path string) bool {
	matcher := caddyhttp.MatchPath(slices.Clone(patterns))
	target, err := url.ParseRequestURI(strings.ReplaceAll((&url.URL{Path: path}).EscapedPath(), "%25", "%"))
	if err != nil || matcher.Provision(caddy.Context{}) != nil {
		return true // Validate says what is wrong
	}
	ctx := context.WithValue(context.Background(), caddy.ReplacerCtxKey, caddy.NewReplacer())
	matches, err := matcher.MatchWithError((&http.Request{Method: http.MethodGet, URL: target}).WithContext(ctx))
	return matches || err != nil
}
