package routetrace

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/intercept"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// place is where a handler stands in a configuration.
type place struct {
	// Server is the server's name, and where it listens.
	Server string

	// Route is what requests must be to come there, by the matchers of the routes around the handler.
	Route string

	// Site says that one of these matchers is for hosts.
	Site bool
}

// ofServer returns the place of all requests of a server.
func ofServer(server string) place { return place{Server: server, Route: "all requests"} }

// String returns the place for people.
func (p place) String() string { return p.Server + " " + p.Route }

// Handlers returns all handlers of servers that are provisioned, with their places: those of the routes, of
// subroutes, of error routes, of named routes and of routes for responses.
func Handlers(servers map[string]*caddyhttp.Server) iter.Seq2[caddyhttp.MiddlewareHandler, place] {
	return func(yield func(caddyhttp.MiddlewareHandler, place) bool) {
		for _, name := range slices.Sorted(maps.Keys(servers)) {
			w := walk{server: serverText(name, servers[name]), visitor: handlerVisitor(yield)}
			for _, p := range partsOf(servers[name]) {
				w.routes(p.routes, p.path, false, false)
			}
			if w.ended {
				return
			}
		}
	}
}

// Matchers returns the matchers of all routes in which [Handlers] finds handlers, those inside of not in place of it.
func Matchers(servers map[string]*caddyhttp.Server) []any {
	v := matcherVisitor{handlerVisitor: func(caddyhttp.MiddlewareHandler, place) bool { return true }}
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		w := walk{visitor: &v}
		for _, p := range partsOf(servers[name]) {
			w.routes(p.routes, p.path, false, false)
		}
	}
	return v.found
}

// part is a list of routes of a server that requests do not come to from another one by themselves.
type part struct {
	routes caddyhttp.RouteList
	path   []string // describes what the routes are for
}

// partsOf returns the routes of a server, its error routes and its named routes.
func partsOf(server *caddyhttp.Server) []part {
	parts := []part{{routes: server.Routes}}
	if server.Errors != nil {
		parts = append(parts, part{server.Errors.Routes, []string{"errors"}})
	}
	for _, name := range slices.Sorted(maps.Keys(server.NamedRoutes)) {
		parts = append(parts, part{caddyhttp.RouteList{*server.NamedRoutes[name]}, []string{"named route " + name}})
	}
	return parts
}

// visitor is called in the order in which requests come to handlers.
type visitor interface {
	// beginList and endList stand around the routes of a list, which may be error routes of a subroute.
	beginList(errors bool)
	endList()

	// beginRoute and endRoute stand around the handlers of a route.
	beginRoute(*caddyhttp.Route)
	endRoute(*caddyhttp.Route)

	// visit is called for a handler before those inside of it, and passed behind them.
	visit(caddyhttp.MiddlewareHandler, place) (goesOn bool)
	passed(caddyhttp.MiddlewareHandler)
}

// handlerVisitor sees handlers alone.
type handlerVisitor func(caddyhttp.MiddlewareHandler, place) bool

func (handlerVisitor) beginList(bool)                     {}
func (handlerVisitor) endList()                           {}
func (handlerVisitor) beginRoute(*caddyhttp.Route)        {}
func (handlerVisitor) endRoute(*caddyhttp.Route)          {}
func (handlerVisitor) passed(caddyhttp.MiddlewareHandler) {}

func (v handlerVisitor) visit(handler caddyhttp.MiddlewareHandler, place place) bool {
	return v(handler, place)
}

// matcherVisitor collects the matchers of routes.
type matcherVisitor struct {
	handlerVisitor
	found []any
}

func (v *matcherVisitor) beginRoute(route *caddyhttp.Route) { v.add(route.MatcherSets) }

func (v *matcherVisitor) add(sets caddyhttp.MatcherSets) {
	for _, set := range sets {
		for _, matcher := range set {
			if not, ok := matcher.(*caddyhttp.MatchNot); ok {
				v.add(not.MatcherSets) // its JSON has nothing any more
				continue
			}
			v.found = append(v.found, matcher)
		}
	}
}

// walk visits the handlers of a server.
type walk struct {
	server string
	visitor
	ended bool
}

// serverText is a server's name, and where it listens.
func serverText(name string, server *caddyhttp.Server) string {
	return name + " (" + strings.Join(server.Listen, ", ") + ")"
}

// routes visits the handlers of routes. The path describes what is around them.
func (w *walk) routes(routes caddyhttp.RouteList, path []string, site, errors bool) {
	w.beginList(errors)
	for i := range routes {
		text, hosts := describe(routes[i].MatcherSets)
		inside := path
		if text != "" {
			inside = append(slices.Clip(path), text)
		}
		w.beginRoute(&routes[i])
		for _, handler := range routes[i].Handlers {
			w.handler(handler, inside, site || hosts)
		}
		w.endRoute(&routes[i])
	}
	w.endList()
}

func (w *walk) handler(handler caddyhttp.MiddlewareHandler, path []string, site bool) {
	if w.ended {
		return
	}
	place := place{Server: w.server, Route: strings.Join(path, " "), Site: site}
	if place.Route == "" {
		place.Route = "all requests"
	}
	if w.ended = !w.visit(handler, place); w.ended {
		return
	}
	switch handler := handler.(type) {
	case *caddyhttp.Subroute:
		w.routes(handler.Routes, path, site, false)
		if handler.Errors != nil {
			w.routes(handler.Errors.Routes, append(slices.Clip(path), "errors"), site, true)
		}
	case *reverseproxy.Handler:
		w.responses(handler.HandleResponse, path, site)
	case *intercept.Intercept:
		w.responses(handler.HandleResponse, path, site)
	}
	w.passed(handler)
}

func (w *walk) responses(handlers []caddyhttp.ResponseHandler, path []string, site bool) {
	for _, h := range handlers {
		w.routes(h.Routes, append(slices.Clip(path), "responses"), site, false)
	}
}

// MatchersText describes matchers: hosts, paths and methods by their values, others by their names. All matchers
// between two "or" must match, and "not" is for those in the parentheses behind it. The text is empty for all
// requests.
func MatchersText(sets caddyhttp.MatcherSets) string {
	text, _ := describe(sets)
	return text
}

// describe describes matchers, and reports whether one is for hosts.
func describe(sets caddyhttp.MatcherSets) (text string, hosts bool) {
	var alternatives []string
	for _, set := range sets {
		hosts = hosts || slices.ContainsFunc(set, func(matcher any) bool {
			_, ok := matcher.(*caddyhttp.MatchHost)
			return ok
		})
		alternatives = append(alternatives, setText(set))
	}
	if text = strings.Join(alternatives, " or "); len(alternatives) > 1 {
		text = "(" + text + ")"
	}
	return text, hosts
}

// setText describes matchers that must all match, sorted: in the JSON they stand in a map. A negation of several
// sets is several negations.
func setText(set caddyhttp.MatcherSet) string {
	var all []string
	for _, matcher := range set {
		if not, ok := matcher.(*caddyhttp.MatchNot); ok {
			for _, set := range not.MatcherSets {
				all = append(all, "not ("+setText(set)+")")
			}
			continue
		}
		all = append(all, matcherText(matcher))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func matcherText(matcher any) string {
	switch matcher := matcher.(type) {
	case *caddyhttp.MatchHost:
		return "host " + someOf(*matcher)
	case *caddyhttp.MatchPath:
		return "path " + someOf(*matcher)
	case *caddyhttp.MatchMethod:
		return "method " + someOf(*matcher)
	case caddy.Module:
		return "by " + strings.TrimPrefix(string(matcher.CaddyModule().ID), "http.matchers.")
	}
	return "by another matcher"
}

// someOf joins the first values. The names of a site can be many. A value that could be taken for several, or for
// the end of the list, is quoted.
func someOf(values []string) string {
	const most = 3
	var shown []string
	for _, value := range values[:min(most, len(values))] {
		if value == "" || strings.ContainsAny(value, " ,()\"") {
			value = strconv.Quote(value)
		}
		shown = append(shown, value)
	}
	text := strings.Join(shown, ",")
	if len(values) > most {
		text += fmt.Sprintf(" and %d more", len(values)-most)
	}
	return text
}
