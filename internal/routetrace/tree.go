// Package routetrace makes one tree of the routes of a server, and has functions on it: what a configuration can hardly
// mean, which error routes can answer a refusal, what proxies may do, and what becomes of a request.
//
// Explain and replay trace requests through such trees. Nothing that a tracer runs writes to a client, an upstream, a file
// or a log.
package routetrace

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/intercept"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
)

// Tree is the routes of a server that is provisioned. It is read by all functions of this package, and does not change:
//
//	Tree              a server
//	  list            its routes, its error routes, each of its named routes
//	    route         its matchers; whether it is terminal, or one of a group
//	      handler     its module and its kind
//	        list      the routes inside: of a subroute and of its errors, of responses, or a named one that it invokes
//	          route   and so on
//
// [NewTree] makes one.
type Tree struct {
	server *caddyhttp.Server
	lists  []list // the first are the server's routes, which requests come to

	errorPaths errorPathsByStatus // found out when they are first asked for
}

// list is routes that are tried one after the other.
type list struct {
	use    listUse
	routes []route
}

// listUse is what comes to a list of routes.
type listUse int

// The uses of lists.
const (
	onRequests   listUse = iota // requests that come to the server, or to the subroute around
	onErrors                    // errors of the server, or of the subroute around
	onResponses                 // responses of a reverse_proxy, or responses that intercept sees
	whereNamed                  // requests of all handlers that invoke this named route of the server
	whereInvoked                // requests of the one handler around, which invokes this named route
)

// route is a route with its handlers, in the order in which requests come to them.
type route struct {
	matchers caddyhttp.MatcherSets // empty: all requests
	group    string                // of which a request takes one route; empty: none
	terminal bool                  // requests end with it
	place    place                 // of its handlers, without a server
	handlers []handler
}

// handler is a handler of a route.
type handler struct {
	Facts
	module   caddyhttp.MiddlewareHandler
	kind     Kind     // what the handler means for a request on its way
	limiting Limiting // the module, if its kind is limits
	lists    []list   // the routes inside
}

// Limiting is a handler that has a limiter.
type Limiting interface {
	// RateLimiter returns a copy of the limiter, whose rules the caller may replace. The handler is provisioned.
	RateLimiter() *gate.Limiter
}

// Trees makes the tree of each server once, when the tree is first asked for. Handlers are all provisioned by then. The zero
// value is ready. Trees are safe for concurrent use.
type Trees struct {
	made sync.Map // of *Tree, by *caddyhttp.Server
}

// Of returns the trees of servers, by the names of the servers.
func (t *Trees) Of(servers map[string]*caddyhttp.Server) map[string]*Tree {
	trees := make(map[string]*Tree, len(servers))
	for name, server := range servers {
		trees[name] = t.of(server)
	}
	return trees
}

func (t *Trees) of(server *caddyhttp.Server) *Tree {
	made, found := t.made.Load(server)
	if !found {
		made, _ = t.made.LoadOrStore(server, NewTree(server))
	}
	tree, _ := made.(*Tree)
	return tree
}

// NewTree returns the tree of a server, as far as the server is set up.
func NewTree(server *caddyhttp.Server) *Tree {
	g := growth{named: server.NamedRoutes, made: map[string][]route{}}
	t := &Tree{server: server, lists: []list{g.list(onRequests, server.Routes, place{})}}
	if server.Errors != nil {
		t.lists = append(t.lists, g.list(onErrors, server.Errors.Routes, place{Route: "errors"}))
	}
	for _, name := range slices.Sorted(maps.Keys(server.NamedRoutes)) {
		t.lists = append(t.lists, g.namedRoute(whereNamed, name))
	}
	return t
}

// growth makes the lists of a tree.
type growth struct {
	named  map[string]*caddyhttp.Route
	around []string           // the named routes around what is made
	made   map[string][]route // of named routes, by those around and the name
}

func (g growth) list(use listUse, routes caddyhttp.RouteList, around place) list {
	l := list{use: use, routes: make([]route, len(routes))}
	for i := range routes {
		from := &routes[i]
		r := route{matchers: from.MatcherSets, group: from.Group, terminal: from.Terminal, place: around.within(from.MatcherSets)}
		for _, module := range from.Handlers {
			r.handlers = append(r.handlers, g.handler(module, r.place))
		}
		l.routes[i] = r
	}
	return l
}

func (g growth) handler(module caddyhttp.MiddlewareHandler, at place) handler {
	h := handler{Facts: factsOf(module), module: module}
	h.kind = h.Kind()
	if limiting, ok := module.(Limiting); ok {
		h.kind, h.limiting = limits, limiting
	}
	switch module := module.(type) {
	case *caddyhttp.Subroute:
		h.lists = append(h.lists, g.list(onRequests, module.Routes, at))
		if module.Errors != nil {
			h.lists = append(h.lists, g.list(onErrors, module.Errors.Routes, at.inside("errors")))
		}
	case *caddyhttp.Invoke: // Caddy answers with an error where there is no such route, and would not end in a circle
		if g.named[module.Name] != nil && !slices.Contains(g.around, module.Name) {
			h.lists = append(h.lists, g.namedRoute(whereInvoked, module.Name))
		}
	case *reverseproxy.Handler:
		h.lists = g.responses(module.HandleResponse, at)
	case *intercept.Intercept:
		h.lists = g.responses(module.HandleResponse, at)
	}
	return h
}

func (g growth) responses(handlers []caddyhttp.ResponseHandler, at place) (lists []list) {
	for i := range handlers {
		lists = append(lists, g.list(onResponses, handlers[i].Routes, at.inside("responses")))
	}
	return lists
}

// namedRoute makes the routes of a named route once, however many handlers invoke it: they differ by the named routes around, in
// which a circle ends, alone.
func (g growth) namedRoute(use listUse, name string) list {
	g.around = append(slices.Clip(g.around), name)
	path := strings.Join(g.around, "\x00")
	routes, found := g.made[path]
	if !found {
		routes = g.list(use, caddyhttp.RouteList{*g.named[name]}, place{Route: "named route " + name}).routes
		g.made[path] = routes
	}
	return list{use: use, routes: routes}
}

// listFor returns the list of a use among lists of which one at most has it; nil: there is none.
func listFor(use listUse, lists []list) *list {
	if i := slices.IndexFunc(lists, func(l list) bool { return l.use == use }); i >= 0 {
		return &lists[i]
	}
	return nil
}

// next returns the routes that requests go through at a handler before they come to the next one; nil: there are none.
func (h *handler) next() *list {
	if h.kind != nests || len(h.lists) == 0 {
		return nil
	}
	return &h.lists[0]
}

// eachHandler calls a function for the handlers of lists with their places, each before those inside of it, until it is
// false, and reports whether it never was. Named routes are visited once, not where they are invoked.
func eachHandler(lists []list, yield func(*handler, place) bool) bool {
	for i := range lists {
		if lists[i].use == whereInvoked {
			continue
		}
		for j := range lists[i].routes {
			r := &lists[i].routes[j]
			for k := range r.handlers {
				if h := &r.handlers[k]; !yield(h, r.place) || !eachHandler(h.lists, yield) {
					return false
				}
			}
		}
	}
	return true
}

// Handlers returns all handlers of trees with their places, in the order of the names of the servers, and of the routes:
// those of routes, of subroutes, of error routes, of named routes and of routes for responses.
func Handlers(trees map[string]*Tree) iter.Seq2[caddyhttp.MiddlewareHandler, place] {
	return func(yield func(caddyhttp.MiddlewareHandler, place) bool) {
		for _, name := range slices.Sorted(maps.Keys(trees)) {
			server := trees[name].text(name)
			goesOn := eachHandler(trees[name].lists, func(h *handler, at place) bool {
				at.Server = server
				return yield(h.module, at)
			})
			if !goesOn {
				return
			}
		}
	}
}

// text is the name of the tree's server, and where it listens.
func (t *Tree) text(name string) string {
	return name + " (" + strings.Join(t.server.Listen, ", ") + ")"
}
