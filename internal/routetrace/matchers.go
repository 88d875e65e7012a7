package routetrace

import (
	"maps"
	"net/http"
	"net/textproto"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// MatcherInputs is what matchers ask of requests, and what a log or a question may lack.
type MatcherInputs struct {
	// Hosts are those that matchers on the way to limits name.
	Hosts []string

	// AnyHost says that there are limits for requests of any host.
	AnyHost bool

	// Headers are those that matchers ask for.
	Headers []headerInput
}

// headerInput is a header field that matchers ask for.
type headerInput struct {
	// Name is in its canonical form.
	Name string

	// Value says that matchers ask for its value; otherwise only whether it is there.
	Value bool
}

// Add adds what the matchers on the way of requests to a server ask for, and the rules of the limiters that decide there.
func (m *MatcherInputs) Add(t *Tree, deciding map[Limiting]*gate.Limiter) {
	m.addRoutes(&t.lists[0], deciding, false)
}

// OnlyHost returns the one host that all limits are for, empty where there are several.
func (m *MatcherInputs) OnlyHost() string {
	if m.AnyHost || len(m.Hosts) != 1 || strings.ContainsAny(m.Hosts[0], "*{") {
		return ""
	}
	return m.Hosts[0]
}

// addRoutes looks through routes. They may be inside of others that are for certain hosts.
func (m *MatcherInputs) addRoutes(l *list, deciding map[Limiting]*gate.Limiter, forHosts bool) {
	for i := range l.routes {
		r := &l.routes[i]
		isLimited := !eachLimiter(l.routes[i:i+1], func(h Limiting) bool { return deciding[h] == nil })
		inside := m.addSets(r.matchers, isLimited) || forHosts
		for j := range r.handlers {
			h := &r.handlers[j]
			if next := h.next(); next != nil {
				m.addRoutes(next, deciding, inside)
			}
			if limiter := deciding[h.limiting]; limiter != nil {
				m.addRules(limiter.Rules.Rules, inside)
			}
		}
	}
}

func (m *MatcherInputs) addRules(rules []rule.Rule, forHosts bool) {
	for i := range rules {
		if !m.addSets(rules[i].Match, true) && !forHosts {
			m.AnyHost = true
		}
		m.addSets(rules[i].Count, false)
	}
}

// addSets looks through matchers, of which those of limits name hosts. It reports whether all
// sets are for certain hosts.
func (m *MatcherInputs) addSets(sets caddyhttp.MatcherSets, limited bool) (forHosts bool) {
	forHosts = len(sets) > 0
	for _, set := range sets {
		named := false
		for _, matcher := range set {
			if hosts, ok := matcher.(*caddyhttp.MatchHost); ok {
				named = true
				if limited {
					m.Hosts = AppendNew(m.Hosts, *hosts...)
				}
			}
			m.addHeaders(matcher)
		}
		forHosts = forHosts && named
	}
	return forHosts
}

// MatchedPlaceholders returns the names, without braces, of the placeholders that matchers of variables compare.
func MatchedPlaceholders(sets caddyhttp.MatcherSets) (names []string) {
	for _, set := range sets {
		for _, matcher := range set {
			var compared []string
			switch matcher := matcher.(type) {
			case *caddyhttp.VarsMatcher:
				compared = slices.Sorted(maps.Keys(*matcher))
			case *caddyhttp.MatchVarsRE:
				compared = slices.Sorted(maps.Keys(*matcher))
			case *caddyhttp.MatchNot:
				names = append(names, MatchedPlaceholders(matcher.MatcherSets)...)
			}
			for _, text := range compared {
				if name, opened := strings.CutPrefix(text, "{"); opened {
					names = append(names, strings.TrimSuffix(name, "}"))
				}
			}
		}
	}
	return names
}

// headerPlaceholder finds the headers in an expression.
var headerPlaceholder = regexp.MustCompile(`http\.request\.header\.([\w-]+)`)

// addHeaders adds those that a matcher asks for.
func (m *MatcherInputs) addHeaders(matcher any) {
	switch matcher := matcher.(type) {
	case *caddyhttp.MatchHeader:
		for _, name := range slices.Sorted(maps.Keys(*matcher)) {
			m.addHeader(name, slices.ContainsFunc((*matcher)[name], func(value string) bool { return value != "*" }))
		}
	case *caddyhttp.MatchHeaderRE:
		for _, name := range slices.Sorted(maps.Keys(*matcher)) {
			m.addHeader(name, true)
		}
	case *caddyhttp.MatchExpression:
		for _, found := range headerPlaceholder.FindAllStringSubmatch(matcher.Expr, -1) {
			m.addHeader(found[1], true)
		}
	case *caddyhttp.MatchNot:
		m.addSets(matcher.MatcherSets, false)
	}
}

func (m *MatcherInputs) addHeader(name string, value bool) {
	name = textproto.CanonicalMIMEHeaderKey(name)
	at := slices.IndexFunc(m.Headers, func(h headerInput) bool { return h.Name == name })
	switch {
	case name == "Host": // which matchers take from elsewhere
	case at < 0:
		m.Headers = append(m.Headers, headerInput{name, value})
	default:
		m.Headers[at].Value = m.Headers[at].Value || value
	}
}

// AppendNew appends the texts that are not in a list yet.
func AppendNew(list []string, more ...string) []string {
	for _, text := range more {
		if !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return list
}

// Narrows reports whether matchers select requests by their method or path, or by what only requests of some methods and
// paths have, such as a body. What is not known of a matcher counts as yes. Those of clients, hosts and connections do
// not narrow.
func Narrows(sets caddyhttp.MatcherSets) bool {
	return len(sets) > 0 && !slices.ContainsFunc(sets, func(set caddyhttp.MatcherSet) bool { return !setNarrows(set) })
}

func setNarrows(set caddyhttp.MatcherSet) bool {
	return slices.ContainsFunc(set, func(matcher any) bool {
		switch matcher := matcher.(type) {
		case *caddyhttp.MatchHost, *caddyhttp.MatchClientIP, *caddyhttp.MatchRemoteIP, *caddyhttp.MatchProtocol, *caddyhttp.MatchTLS:
			return false
		case *caddyhttp.MatchHeader:
			return isOfBody(*matcher)
		case *caddyhttp.MatchHeaderRE:
			return isOfBody(*matcher)
		case *caddyhttp.MatchNot:
			return slices.ContainsFunc(matcher.MatcherSets, setNarrows)
		}
		return true
	})
}

// isOfBody reports whether one of the headers is about the request's body.
func isOfBody[V any](headers map[string]V) bool {
	for name := range headers {
		switch http.CanonicalHeaderKey(name) {
		case "Content-Type", "Content-Length", "Transfer-Encoding":
			return true
		}
	}
	return false
}

// Matchers returns the matchers of all routes in which [Handlers] finds handlers, those inside of not in place of it.
func Matchers(trees map[string]*Tree) (found []any) {
	for _, name := range slices.Sorted(maps.Keys(trees)) {
		found = append(found, matchersIn(trees[name].lists)...)
	}
	return found
}

func matchersIn(lists []list) (found []any) {
	for i := range lists {
		if lists[i].use == whereInvoked {
			continue
		}
		for j := range lists[i].routes {
			r := &lists[i].routes[j]
			found = append(found, matchersOf(r.matchers)...)
			for k := range r.handlers {
				found = append(found, matchersIn(r.handlers[k].lists)...)
			}
		}
	}
	return found
}

func matchersOf(sets caddyhttp.MatcherSets) (found []any) {
	for _, set := range sets {
		for _, matcher := range set {
			if not, ok := matcher.(*caddyhttp.MatchNot); ok {
				found = append(found, matchersOf(not.MatcherSets)...) // its JSON has nothing any more
				continue
			}
			found = append(found, matcher)
		}
	}
	return found
}
