package redisratelimit

import (
	"maps"
	"net/textproto"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// matcherInputs is what the matchers of a configuration ask of requests, and a log or a question may not tell.
type matcherInputs struct {
	hosts   []string // of which some have limits
	anyHost bool     // there are limits for requests of any host
	headers []string // whose values decide
}

// onlyHost is the one host that all limits are for, empty where there is no such.
func (a *matcherInputs) onlyHost() string {
	if a.anyHost || len(a.hosts) != 1 || strings.ContainsAny(a.hosts[0], "*{") {
		return ""
	}
	return a.hosts[0]
}

// addRoutes looks through routes. They may be inside of others that are for certain hosts.
func (a *matcherInputs) addRoutes(routes []reducedRoute, forHosts bool) {
	for i := range routes {
		route := &routes[i]
		inside := a.addSets(route.matchers, hasLimiter(routes[i:i+1])) || forHosts
		for j := range route.steps {
			s := &route.steps[j]
			a.addRoutes(s.inside, inside)
			if s.limiter != nil {
				a.addRules(s.limiter.rules, inside)
			}
		}
	}
}

func (a *matcherInputs) addRules(rules []rule, forHosts bool) {
	for i := range rules {
		if !a.addSets(rules[i].match, true) && !forHosts {
			a.anyHost = true
		}
	}
}

// addSets looks through matchers, of which those of limits name hosts. It tells whether all sets are for
// certain hosts.
func (a *matcherInputs) addSets(sets caddyhttp.MatcherSets, limited bool) (forHosts bool) {
	forHosts = len(sets) > 0
	for _, set := range sets {
		named := false
		for _, matcher := range set {
			if hosts, ok := matcher.(*caddyhttp.MatchHost); ok {
				named = true
				if limited {
					a.hosts = appendNew(a.hosts, *hosts...)
				}
			}
			a.addHeaders(matcher)
		}
		forHosts = forHosts && named
	}
	return forHosts
}

// headerPlaceholder finds the headers in an expression.
var headerPlaceholder = regexp.MustCompile(`http\.request\.header\.([\w-]+)`)

// addHeaders adds those whose values a matcher asks for.
func (a *matcherInputs) addHeaders(matcher any) {
	switch m := matcher.(type) {
	case *caddyhttp.MatchHeader:
		for _, name := range slices.Sorted(maps.Keys(*m)) {
			if slices.ContainsFunc((*m)[name], func(value string) bool { return value != "*" }) {
				a.addHeader(name)
			}
		}
	case *caddyhttp.MatchHeaderRE:
		for _, name := range slices.Sorted(maps.Keys(*m)) {
			a.addHeader(name)
		}
	case *caddyhttp.MatchExpression:
		for _, found := range headerPlaceholder.FindAllStringSubmatch(m.Expr, -1) {
			a.addHeader(found[1])
		}
	case *caddyhttp.MatchNot:
		a.addSets(m.MatcherSets, false)
	}
}

func (a *matcherInputs) addHeader(name string) {
	a.headers = appendNew(a.headers, textproto.CanonicalMIMEHeaderKey(name))
}

// appendNew appends those that are not there yet.
func appendNew(list []string, more ...string) []string {
	for _, text := range more {
		if !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return list
}
