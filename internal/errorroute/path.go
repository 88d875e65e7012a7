package errorroute

import (
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// path is where an error may go in error routes. Of several paths it takes the first whose hosts are the request's.
type path struct {
	hosts   []*caddyhttp.MatchHost // each of which must match
	answers bool                   // a handler may answer; otherwise the routes end without one
}

// isOf reports whether a request's errors may go this path.
func (p *path) isOf(r *http.Request) bool {
	for _, hosts := range p.hosts {
		if matches, err := hosts.MatchWithError(r); err == nil && !matches {
			return false
		}
	}
	return true
}

// pathsOf returns the paths of errors of a status through routes. Behind the last one that answers there is nothing
// to decide.
func pathsOf(routes caddyhttp.RouteList, status int) []path {
	paths := through(routes, condition{certain: true}, status)
	for len(paths) > 0 && !paths[len(paths)-1].answers {
		paths = paths[:len(paths)-1]
	}
	return paths
}

// through returns the paths through routes that errors come to under a condition.
func through(routes caddyhttp.RouteList, around condition, status int) (paths []path) {
	for i := range routes {
		for _, inside := range around.and(routes[i].MatcherSets, status) {
			paths = append(paths, within(routes[i].Handlers, inside, status)...)
			if routes[i].Terminal && inside.certain {
				paths = append(paths, path{hosts: inside.hosts})
			}
		}
	}
	return paths
}

// within returns the paths through a route's handlers. Any handler but a subroute may answer.
func within(handlers []caddyhttp.MiddlewareHandler, around condition, status int) (paths []path) {
	for _, handler := range handlers {
		subroute, ok := handler.(*caddyhttp.Subroute)
		if !ok {
			return []path{{hosts: around.hosts, answers: true}}
		}
		paths = append(paths, through(subroute.Routes, around, status)...)
	}
	return paths
}

// condition is when errors come to a route: the request is of all these hosts, and, unless it is certain, matches what
// cannot be known before.
type condition struct {
	hosts   []*caddyhttp.MatchHost
	certain bool
}

// and returns the conditions under which errors of a status come into a route with matchers, in the order in which they
// are tried. There is none if they never do.
func (c condition) and(sets caddyhttp.MatcherSets, status int) (all []condition) {
	if len(sets) == 0 {
		return []condition{c}
	}
	for _, set := range sets {
		if inside, possible := c.with(set, status); possible {
			all = append(all, inside)
		}
	}
	return all
}

// with adds matchers that must all match, and reports whether they can.
func (c condition) with(set caddyhttp.MatcherSet, status int) (inside condition, possible bool) {
	c.hosts = slices.Clip(c.hosts)
	for _, matcher := range set {
		if hosts, ok := matcher.(*caddyhttp.MatchHost); ok {
			c.hosts = append(c.hosts, hosts)
			continue
		}
		named, isList := namedBy(matcher)
		if isList && !named.include(status) {
			return c, false
		}
		c.certain = c.certain && isList
	}
	return c, true
}

// namedBy returns the statuses that a matcher is for, and reports whether it is for nothing else.
func namedBy(matcher any) (named spans, isList bool) {
	expression, ok := matcher.(*caddyhttp.MatchExpression)
	if !ok {
		return nil, false
	}
	return statusesNamed(expression.Expr)
}
