package rule

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
)

// This file is about matchers whose answer is not Caddy's alone: matchers of paths, see [pathMatcher], and matchers that ask for
// values of the request's body, of which some cannot be read. What a matcher says of such a value is unknown, by Kleene's logic:
// with path /a beside the matcher, a request of another path does not match whatever the value is, and a matcher within not stays
// unknown. Caddy keeps matchers in maps, so that they have no order that could decide.

// truth is what a condition says of a request.
type truth uint8

const (
	isFalse truth = iota
	isUnknown
	isTrue
)

// selector is the matchers of an option, and what they compare.
type selector struct {
	option        string // match or count
	sets          caddyhttp.MatcherSets
	conditions    [][]condition
	comparesPaths bool // a matcher of paths is among them
	unreadTakes   bool // requests are selected that depend on a value that cannot be read, where on_unread passes these
}

// newSelector makes the selector of an option of a rule. With extensions a path meets also that path with an extension.
func newSelector(option string, sets caddyhttp.MatcherSets, extensions bool) selector {
	sets = withAnyLetters(sets)
	conditions := conditionsOf(sets, place{extensions: extensions})
	return selector{option, sets, conditions, comparePaths(conditions), option == "count"}
}

// condition is a matcher, or sets of conditions of which one has to hold as a whole.
type condition struct {
	matcher  caddyhttp.MatcherSet // of one matcher; empty: the sets decide
	sets     [][]condition
	paths    *pathMatcher // in place of the matcher, for paths
	negated  bool         // the condition holds if no set does
	asksBody bool         // the condition depends on a value of the body
	module   string       // of the matcher
}

// place is where matchers stand: what [pathMatcher] goes by.
type place struct{ within, extensions bool }

// conditionsOf returns matchers as conditions. Conditions that ask for the body stand at the end of their set, so that no body is
// read where another one does not match.
func conditionsOf(sets []caddyhttp.MatcherSet, at place) [][]condition {
	conditions := make([][]condition, len(sets))
	for i, set := range sets {
		for _, matcher := range set {
			conditions[i] = append(conditions[i], conditionOf(matcher, at))
		}
		slices.SortStableFunc(conditions[i], condition.compare)
	}
	return conditions
}

// conditionOf returns a matcher as a condition. The matchers of variables hold if one of their variables does.
func conditionOf(matcher any, at place) condition {
	var alternatives []caddyhttp.MatcherSet
	switch m := matcher.(type) {
	case *caddyhttp.MatchNot:
		return groupOf(conditionsOf(m.MatcherSets, place{within: !at.within, extensions: at.extensions}), true)
	case *caddyhttp.MatchPath:
		paths := *m
		if !at.within {
			paths = withoutSlash(paths)
		}
		return condition{paths: &pathMatcher{paths, at.within, at.extensions && !at.within}, module: pathModule}
	case methodMatcher:
		return condition{matcher: caddyhttp.MatcherSet{m}, module: string(caddyhttp.MatchMethod(m).CaddyModule().ID)}
	case *caddyhttp.VarsMatcher:
		for _, name := range slices.Sorted(maps.Keys(*m)) {
			alternatives = append(alternatives, caddyhttp.MatcherSet{&caddyhttp.VarsMatcher{name: (*m)[name]}})
		}
	case *caddyhttp.MatchVarsRE:
		for _, name := range slices.Sorted(maps.Keys(*m)) {
			alternatives = append(alternatives, caddyhttp.MatcherSet{&caddyhttp.MatchVarsRE{name: (*m)[name]}})
		}
	}
	if len(alternatives) > 1 {
		group := groupOf(conditionsOf(alternatives, at), false)
		slices.SortStableFunc(group.sets, func(a, b []condition) int { return a[0].compare(b[0]) })
		return group
	}
	c := condition{matcher: caddyhttp.MatcherSet{matcher}}
	if module, ok := matcher.(caddy.Module); ok {
		c.module = string(module.CaddyModule().ID)
	}
	if text, err := json.Marshal(matcher); err == nil {
		c.asksBody = len(bodyvalue.NamesInJSON(text, nil)) > 0
	}
	return c
}

// methodMatcher matches methods in any letters: Werkzeug, and so Flask, takes post for POST. Within not, where a method is left out,
// its letters count as they are.
type methodMatcher caddyhttp.MatchMethod

// MatchWithError implements [caddyhttp.RequestMatcherWithError].
func (m methodMatcher) MatchWithError(r *http.Request) (bool, error) {
	return slices.ContainsFunc(m, func(method string) bool { return strings.EqualFold(method, r.Method) }), nil
}

// withAnyLetters returns matchers of which those of methods, outside of not, match these in any letters.
func withAnyLetters(sets caddyhttp.MatcherSets) caddyhttp.MatcherSets {
	sets = slices.Clone(sets)
	for i, set := range sets {
		sets[i] = slices.Clone(set)
		for j, matcher := range set {
			if methods, ok := matcher.(*caddyhttp.MatchMethod); ok {
				sets[i][j] = methodMatcher(*methods)
			}
		}
	}
	return sets
}

// pathModule is the module of matchers of paths.
const pathModule = "http.matchers.path"

// comparePaths reports whether a matcher of paths is among conditions.
func comparePaths(sets [][]condition) bool {
	return slices.ContainsFunc(sets, func(set []condition) bool {
		return slices.ContainsFunc(set, func(c condition) bool { return c.paths != nil || comparePaths(c.sets) })
	})
}

// groupOf returns sets as a condition.
func groupOf(sets [][]condition, negated bool) condition {
	asksBody := func(c condition) bool { return c.asksBody }
	return condition{sets: sets, negated: negated, asksBody: slices.ContainsFunc(sets, func(set []condition) bool {
		return slices.ContainsFunc(set, asksBody)
	})}
}

// compare orders conditions as they are asked.
func (c condition) compare(other condition) int {
	switch {
	case c.asksBody == other.asksBody:
		return cmp.Compare(c.module, other.module)
	case c.asksBody:
		return 1
	}
	return -1
}

// matching asks the matchers of a rule about one request.
type matching struct {
	request *http.Request
	body    Body                       // nil: no value of the body can be asked for
	forms   []*http.Request            // see [formsOf]
	unread  bodyvalue.UnreadableReason // why a value that matchers asked for cannot be read
}

// matcherError is the error of a matcher, and not of the body.
type matcherError struct{ err error }

func (e matcherError) Error() string { return e.err.Error() }

// Unwrap returns the matcher's own error, which may have a status.
func (e matcherError) Unwrap() error { return e.err }

// IsByMatcher reports whether an error is that of a request for which a matcher of a rule failed.
func IsByMatcher(err error) bool { return errors.As(err, new(matcherError)) }

// any returns whether one of the sets holds.
func (m *matching) any(sets [][]condition) (answer truth, err error) {
	for i := 0; i < len(sets) && answer != isTrue; i++ {
		one, err := m.all(sets[i])
		if err != nil {
			return isFalse, err
		}
		answer = max(answer, one)
	}
	return answer, nil
}

// all returns whether all conditions of a set hold.
func (m *matching) all(set []condition) (truth, error) {
	answer := isTrue
	for i := 0; i < len(set) && answer != isFalse; i++ {
		one, err := m.one(&set[i])
		if err != nil {
			return isFalse, err
		}
		answer = min(answer, one)
	}
	return answer, nil
}

// one returns whether a condition holds.
func (m *matching) one(c *condition) (answer truth, err error) {
	if c.paths != nil {
		return m.path(c.paths)
	}
	if len(c.matcher) == 0 {
		if answer, err = m.any(c.sets); c.negated {
			answer = isTrue - answer
		}
		return answer, err
	}
	matches, failed := c.matcher.MatchWithError(m.request)
	if m.body != nil {
		unread, err := m.body.Unread()
		switch {
		case err != nil:
			return isFalse, err
		case unread != bodyvalue.ReasonNone:
			m.unread = unread
			return isUnknown, nil
		}
	}
	return truthOf(matches, failed)
}

// path returns whether a path matches.
func (m *matching) path(p *pathMatcher) (truth, error) {
	return truthOf(p.matches(m.request, m.forms))
}

// truthOf returns what a matcher says.
func truthOf(matches bool, failed error) (truth, error) {
	switch {
	case failed != nil:
		return isFalse, matcherError{failed}
	case matches:
		return isTrue, nil
	}
	return isFalse, nil
}
