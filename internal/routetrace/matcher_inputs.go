package routetrace

import (
	"maps"
	"net/textproto"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// MatcherInputs is what the matchers of plans ask of requests, and what a log or a question may lack.
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

// Add adds what the matchers of a plan ask for.
func (m *MatcherInputs) Add(p *Plan) { m.addRoutes(p.Routes, false) }

// OnlyHost returns the one host that all limits are for, empty where there are several.
func (m *MatcherInputs) OnlyHost() string {
	if m.AnyHost || len(m.Hosts) != 1 || strings.ContainsAny(m.Hosts[0], "*{") {
		return ""
	}
	return m.Hosts[0]
}

// addRoutes looks through routes. They may be inside of others that are for certain hosts.
func (m *MatcherInputs) addRoutes(routes []plannedRoute, forHosts bool) {
	for i := range routes {
		route := &routes[i]
		inside := m.addSets(route.Matchers, hasLimiter(routes[i:i+1])) || forHosts
		for j := range route.Steps {
			s := &route.Steps[j]
			m.addRoutes(s.Inside, inside)
			if s.Limiter != nil {
				m.addRules(s.Limiter.Rules.Rules, inside)
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
