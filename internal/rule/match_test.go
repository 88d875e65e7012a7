package rule

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// fakeBody is a body whose values are a test's: a text, or none that can be read.
type fakeBody struct {
	values map[string]string
	unread bodyvalue.UnreadableReason
	err    error // of a body that is not there to be read
	failed error
	asked  int
}

// arrayOf is a value that cannot be read.
const arrayOf = "[]"

func (b *fakeBody) placeholder(name string) (any, bool) {
	if !bodyvalue.IsPlaceholder(name) {
		return nil, false
	}
	b.asked++
	b.failed = b.err
	value := b.values[name[len(bodyvalue.PlaceholderPrefix+"json."):]]
	if value == arrayOf {
		b.unread, value = bodyvalue.ReasonArray, ""
	}
	return value, true
}

func (b *fakeBody) Unread() (bodyvalue.UnreadableReason, error) {
	unread, failed := b.unread, b.failed
	b.unread, b.failed = bodyvalue.ReasonNone, nil
	return unread, failed
}

func (*fakeBody) Denies([]limiter.Check) bool        { return false }
func (*fakeBody) Values() (*bodyvalue.Values, error) { return nil, errors.ErrUnsupported }
func (*fakeBody) Err() error                         { return nil }

// failing is a matcher that asks for a value and fails.
type failing struct{ path string }

func (m failing) MatchWithError(r *http.Request) (bool, error) {
	repl, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	_, _ = repl.Get(bodyvalue.PlaceholderPrefix + "json." + m.path)
	return false, errBroken
}

var errBroken = errors.New("the matcher is broken")

// bodyVars matches if one of the body's values is x.
func bodyVars(paths ...string) *caddyhttp.VarsMatcher {
	m := caddyhttp.VarsMatcher{}
	for _, path := range paths {
		m["{"+bodyvalue.PlaceholderPrefix+"json."+path+"}"] = []string{"x"}
	}
	return &m
}

// bodyPattern does so by a pattern.
func bodyPattern(t *testing.T, paths ...string) *caddyhttp.MatchVarsRE {
	m := caddyhttp.MatchVarsRE{}
	for _, path := range paths {
		one := &caddyhttp.MatchRegexp{Pattern: "^x$"}
		assert.Must(t, one.Provision(caddy.Context{}))
		m["{"+bodyvalue.PlaceholderPrefix+"json."+path+"}"] = one
	}
	return &m
}

// TestSet_matches asks matchers of values of which some cannot be read. Whatever the order of a map, a request is refused
// only if such a value decides.
func TestSet_matches(t *testing.T) {
	type set = caddyhttp.MatcherSet
	at, not := func(path string) any { return &caddyhttp.MatchPath{path} }, func(sets ...set) any {
		return &caddyhttp.MatchNot{MatcherSets: sets}
	}
	values := map[string]string{"x": "x", "y": "y", "bad": arrayOf}
	for name, test := range map[string]struct {
		sets    []set
		want    string
		unasked bool // no value is asked for
	}{
		"a value":                            {[]set{{bodyVars("x")}}, "yes", false},
		"another value":                      {[]set{{bodyVars("y")}}, "no", false},
		"no value":                           {[]set{{bodyVars("none")}}, "no", false},
		"unreadable":                         {[]set{{bodyVars("bad")}}, "refused", false},
		"by a pattern":                       {[]set{{bodyPattern(t, "bad")}}, "refused", false},
		"beside another path":                {[]set{{bodyVars("bad"), at("/other")}}, "no", true},
		"beside the path":                    {[]set{{bodyVars("bad"), at("/")}}, "refused", false},
		"beside another value":               {[]set{{bodyVars("bad"), bodyPattern(t, "y")}}, "no", false},
		"beside the value":                   {[]set{{bodyVars("bad"), bodyPattern(t, "x")}}, "refused", false},
		"or the value":                       {[]set{{bodyVars("bad", "x")}}, "yes", false},
		"or the value by a pattern":          {[]set{{bodyPattern(t, "bad", "x")}}, "yes", false},
		"or another value":                   {[]set{{bodyVars("bad", "y")}}, "refused", false},
		"or the path":                        {[]set{{bodyVars("bad")}, {at("/")}}, "yes", false},
		"or another path":                    {[]set{{bodyVars("bad")}, {at("/other")}}, "refused", false},
		"not":                                {[]set{{not(set{bodyVars("x")})}}, "no", false},
		"not another value":                  {[]set{{not(set{bodyVars("y")})}}, "yes", false},
		"not unreadable":                     {[]set{{not(set{bodyVars("bad")})}}, "refused", false},
		"not unreadable and another path":    {[]set{{not(set{bodyVars("bad"), at("/other")})}}, "yes", true},
		"not unreadable nor the path":        {[]set{{not(set{bodyVars("bad")}, set{at("/")})}}, "no", false},
		"not not unreadable":                 {[]set{{not(set{not(set{bodyVars("bad")})})}}, "refused", false},
		"not unreadable, at another path":    {[]set{{not(set{bodyVars("bad")}), at("/other")}}, "no", true},
		"without a matcher":                  {[]set{{}}, "yes", true},
		"not without a matcher":              {[]set{{not()}}, "yes", true},
		"a matcher that fails":               {[]set{{failing{"x"}}}, "broken", false},
		"a matcher of it that fails":         {[]set{{failing{"bad"}}}, "refused", false},
		"a matcher that fails, unreadable":   {[]set{{bodyVars("bad"), failing{"x"}}}, "broken", false},
		"a matcher that fails, another path": {[]set{{failing{"x"}, at("/other")}}, "broken", false},
	} {
		t.Run(name, func(t *testing.T) {
			rules := manyRules(t, 2, 0)[:1]
			rules[0].Match, rules[0].MatchBody = test.sets, []bodyvalue.ValueSource{assert.NoError(bodyvalue.ParseSource(bodyvalue.PlaceholderPrefix + "json.x"))(t)}
			body := &fakeBody{values: values}
			got := matchesBody(t, rules, body)
			assert.Equal(t, got, test.want, "the matchers' answer")
			assert.Equal(t, body.asked == 0, test.unasked, "that no value is asked for")
			if test.want == "refused" {
				rules[0].PassUnread = true
				assert.Equal(t, matchesBody(t, rules, &fakeBody{values: values}), "no", "the answer with on_unread pass")
			}
		})
	}
}

// matchesBody evaluates a rule for a request with a body.
func matchesBody(t *testing.T, rules []Rule, body *fakeBody) string {
	t.Helper()
	r, repl := keyRequest("192.0.2.1", nil)
	repl.Map(body.placeholder)
	r = r.WithContext(context.WithValue(r.Context(), caddy.ReplacerCtxKey, repl))
	e := Evaluation{Body: body}
	err := NewSet(rules).Evaluate(r, repl, &e)
	coded := caddyhttp.HandlerError{}
	switch {
	case errors.Is(err, errBroken):
		return "broken"
	case errors.As(err, &coded) && coded.StatusCode == http.StatusBadRequest:
		return "refused"
	case err != nil:
		return err.Error()
	case len(e.Enforced) > 0:
		return "yes"
	}
	return "no"
}

// TestSet_matches_earlier asks matchers after something else has asked for a value that cannot be read, or has failed.
func TestSet_matches_earlier(t *testing.T) {
	rules := manyRules(t, 2, 0)[:1]
	rules[0].Match = []caddyhttp.MatcherSet{{bodyVars("x")}}
	for name, test := range map[string]struct {
		sets []caddyhttp.MatcherSet
		body fakeBody
		want string
	}{
		"a value that cannot be read": {[]caddyhttp.MatcherSet{{bodyVars("x")}}, fakeBody{unread: bodyvalue.ReasonArray}, "yes"},
		"a body that has failed":      {[]caddyhttp.MatcherSet{{&caddyhttp.MatchPath{"/other"}, bodyVars("x")}}, fakeBody{failed: ErrNoRoom, err: ErrNoRoom}, "no"},
		"a body that fails":           {[]caddyhttp.MatcherSet{{&caddyhttp.MatchPath{"/"}, bodyVars("x")}}, fakeBody{err: ErrNoRoom}, ErrNoRoom.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			rules[0].Match, test.body.values = test.sets, map[string]string{"x": "x"}
			assert.Equal(t, matchesBody(t, rules, &test.body), test.want, "the matchers' answer")
		})
	}
}
