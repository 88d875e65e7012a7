package routetrace

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// The statuses of errors.
const (
	minErrorStatus = 400
	maxErrorStatus = 599
)

// errorPathsByStatus are the paths of errors through a server's error routes, by status. Nil: not decided so far.
type errorPathsByStatus [maxErrorStatus - minErrorStatus + 1]atomic.Pointer[[]errorPath]

// CanHandle reports whether an error route of a request's server can answer an error of a status. Routes do so for
// the hosts that they match, and for the statuses that handle_errors names. Whatever else they match by, they may
// match. So may those around named routes, which are not seen from within.
//
// What can be known of the routes is decided once for each status, and for a request only whether its host is that of a route.
func (t *Trees) CanHandle(r *http.Request, status int) bool {
	server, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	switch {
	case !ok || server == nil || len(server.NamedRoutes) > 0:
		return true
	case server.Errors == nil || len(server.Errors.Routes) == 0:
		return false
	case status < minErrorStatus || status > maxErrorStatus:
		return true
	}
	for _, p := range t.of(server).errorPathsOf(status) {
		if p.isOf(r) {
			return p.answers
		}
	}
	return false
}

// errorPathsOf returns the paths of errors of a status through the server's error routes. Behind the last one that answers
// there is nothing to decide.
func (t *Tree) errorPathsOf(status int) []errorPath {
	kept := &t.errorPaths[status-minErrorStatus]
	if paths := kept.Load(); paths != nil {
		return *paths
	}
	paths := pathsThrough(listFor(onErrors, t.lists), errorCondition{certain: true}, status)
	for len(paths) > 0 && !paths[len(paths)-1].answers {
		paths = paths[:len(paths)-1]
	}
	kept.Store(&paths)
	return paths
}

// errorPath is where an error may go in error routes. Of several paths it takes the first whose hosts are the request's.
type errorPath struct {
	hosts   []*caddyhttp.MatchHost // each of which must match
	answers bool                   // a handler may answer; otherwise the routes end without one
}

// isOf reports whether a request's errors may go this path.
func (p *errorPath) isOf(r *http.Request) bool {
	for _, hosts := range p.hosts {
		if matches, err := hosts.MatchWithError(r); err == nil && !matches {
			return false
		}
	}
	return true
}

// pathsThrough returns the paths through routes that errors come to under a condition.
func pathsThrough(l *list, around errorCondition, status int) (paths []errorPath) {
	for i := range l.routes {
		r := &l.routes[i]
		for _, inside := range around.and(r.matchers, status) {
			paths = append(paths, pathsWithin(r.handlers, inside, status)...)
			if r.terminal && inside.certain {
				paths = append(paths, errorPath{hosts: inside.hosts})
			}
		}
	}
	return paths
}

// pathsWithin returns the paths through a route's handlers. Any handler but a subroute may answer.
func pathsWithin(handlers []handler, around errorCondition, status int) (paths []errorPath) {
	for i := range handlers {
		h := &handlers[i]
		if h.Name != "subroute" {
			return []errorPath{{hosts: around.hosts, answers: true}}
		}
		paths = append(paths, pathsThrough(h.next(), around, status)...)
	}
	return paths
}

// errorCondition is when errors come to a route: the request is of all these hosts, and, unless it is certain, matches what
// cannot be known before.
type errorCondition struct {
	hosts   []*caddyhttp.MatchHost
	certain bool
}

// and returns the conditions under which errors of a status come into a route with matchers, in the order in which they
// are tried. There is none if they never do.
func (c errorCondition) and(sets caddyhttp.MatcherSets, status int) (all []errorCondition) {
	if len(sets) == 0 {
		return []errorCondition{c}
	}
	for _, set := range sets {
		if inside, possible := c.with(set, status); possible {
			all = append(all, inside)
		}
	}
	return all
}

// with adds matchers that must all match, and reports whether they can.
func (c errorCondition) with(set caddyhttp.MatcherSet, status int) (inside errorCondition, possible bool) {
	c.hosts = slices.Clip(c.hosts)
	for _, matcher := range set {
		if hosts, ok := matcher.(*caddyhttp.MatchHost); ok {
			c.hosts = append(c.hosts, hosts)
			continue
		}
		named, isList := statusesOfMatcher(matcher)
		if isList && !named.include(status) {
			return c, false
		}
		c.certain = c.certain && isList
	}
	return c, true
}

// statusesOfMatcher returns the statuses that a matcher is for, and reports whether it is for nothing else.
func statusesOfMatcher(matcher any) (named statusSpans, isList bool) {
	expression, ok := matcher.(*caddyhttp.MatchExpression)
	if !ok {
		return nil, false
	}
	return statusesNamed(expression.Expr)
}

// statusSpan is a range of statuses, from the first one to the last.
type statusSpan struct{ first, last int }

// statusSpans are the statuses that handle_errors names.
type statusSpans []statusSpan

// include reports whether a status is one of them.
func (s statusSpans) include(status int) bool {
	return slices.ContainsFunc(s, func(s statusSpan) bool { return s.first <= status && status <= s.last })
}

// statusPlaceholder is an error's status in the expression of handle_errors.
const statusPlaceholder = "{http.error.status_code}"

// statusesNamed reads the expression that Caddy makes of handle_errors 404 5xx, and reports whether it is one:
//
//	{http.error.status_code} >= 500 && {http.error.status_code} <= 599 || {http.error.status_code} in [404]
func statusesNamed(expression string) (named statusSpans, isList bool) {
	for part := range strings.SplitSeq(expression, " || ") {
		more, ok := parseList(part)
		if !ok {
			more, ok = parseSpan(part)
		}
		if !ok {
			return nil, false
		}
		named = append(named, more...)
	}
	return named, true
}

// parseList reads a part of the expression with single statuses.
func parseList(part string) (named statusSpans, ok bool) {
	list, begins := strings.CutPrefix(part, statusPlaceholder+" in [")
	list, ends := strings.CutSuffix(list, "]")
	if !begins || !ends {
		return nil, false
	}
	for text := range strings.SplitSeq(list, ", ") {
		status, err := strconv.Atoi(text)
		if err != nil {
			return nil, false
		}
		named = append(named, statusSpan{status, status})
	}
	return named, true
}

// parseSpan reads a part of the expression with all statuses of a first digit.
func parseSpan(part string) (named statusSpans, ok bool) {
	from, to, _ := strings.Cut(part, " && ")
	from, begins := strings.CutPrefix(from, statusPlaceholder+" >= ")
	to, ends := strings.CutPrefix(to, statusPlaceholder+" <= ")
	first, err := strconv.Atoi(from)
	last, endErr := strconv.Atoi(to)
	if !begins || !ends || err != nil || endErr != nil {
		return nil, false
	}
	return statusSpans{{first, last}}, true
}
