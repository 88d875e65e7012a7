package redisratelimit

import (
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// course is a server's routes, reduced to what decides about rate limits: matchers, subroutes, the
// handlers that change what later ones see (vars, map, rewrite, headers), those that end a request
// (static_response, error), and this module's. Everything else is left out and listed. Nothing that a
// course runs writes to a client, an upstream, a file or a log.
type course struct {
	routes  []reducedRoute
	skipped []string // the handlers that were left out
}

// reducedRoute is a route with what is left of its handlers.
type reducedRoute struct {
	group    string
	terminal bool
	matchers caddyhttp.MatcherSets
	steps    []step
}

// step is one handler of a reduced route; exactly one of its fields is set.
type step struct {
	limiter *Handler
	inside  []reducedRoute              // of a subroute
	changes caddyhttp.MiddlewareHandler // and then calls the next handler, or ends the request
	ends    bool                        // the request
}

// changing are the handlers that are run because what follows depends on them.
var changing = []string{"vars", "map", "rewrite", "headers"}

// handlerSpace begins the names of handlers, where they are written whole.
const handlerSpace = "http.handlers."

// earlyHints is the status of a response that does not end a request.
const earlyHints = "103"

// newCourse reduces routes that are provisioned. The named routes are those that invoke may run.
func newCourse(routes caddyhttp.RouteList, named map[string]*caddyhttp.Route) *course {
	c := new(course)
	c.routes = c.reduce(routes, named, nil)
	return c
}

// reduce reduces routes, inside of named ones that are being reduced already.
func (c *course) reduce(routes caddyhttp.RouteList, named map[string]*caddyhttp.Route, inside []string) (reduced []reducedRoute) {
	for i := range routes {
		route := &routes[i]
		kept := reducedRoute{group: route.Group, terminal: route.Terminal, matchers: route.MatcherSets}
		for _, handler := range route.Handlers {
			if s, ok := c.step(handler, named, inside); ok {
				kept.steps = append(kept.steps, s)
			}
		}
		reduced = append(reduced, kept)
	}
	return reduced
}

// step reduces one handler. It is false for one that is left out.
func (c *course) step(handler caddyhttp.MiddlewareHandler, named map[string]*caddyhttp.Route, inside []string) (step, bool) {
	switch handler := handler.(type) {
	case *Handler:
		return step{limiter: handler}, true
	case *caddyhttp.Subroute:
		return step{inside: c.reduce(handler.Routes, named, inside)}, true
	case *caddyhttp.Invoke:
		route := named[handler.Name]
		if route == nil || slices.Contains(inside, handler.Name) {
			return step{ends: true}, true // Caddy answers with an error, or would not end
		}
		return step{inside: c.reduce(caddyhttp.RouteList{*route}, named, append(inside, handler.Name))}, true
	case *caddyhttp.StaticResponse:
		return step{ends: true}, handler.StatusCode != earlyHints
	case *caddyhttp.StaticError:
		return step{ends: true}, true
	}
	name := "unknown"
	if module, ok := handler.(caddy.Module); ok {
		name = string(module.CaddyModule().ID)
	}
	if slices.Contains(changing, strings.TrimPrefix(name, handlerSpace)) {
		return step{changes: handler}, true
	}
	if !slices.Contains(c.skipped, name) {
		c.skipped = append(c.skipped, name)
	}
	return step{}, false
}

// walk is one request on its way through a course.
type walk struct {
	request *http.Request
	writer  nowhereWriter
	groups  []string // of routes that have matched

	// meet decides what becomes of the request at a handler of this module: whether it goes on.
	meet func(h *Handler, r *http.Request) (goesOn bool, err error)

	passed bool // the handler that changes has called the next one
}

// run takes the request through routes and tells whether it has ended there.
func (w *walk) run(routes []reducedRoute) (ended bool, err error) {
	for i := range routes {
		route := &routes[i]
		if route.group != "" && slices.Contains(w.groups, route.group) {
			continue
		}
		matches, err := route.matchers.AnyMatchWithError(w.request)
		if err != nil {
			return true, err
		}
		if !matches {
			continue
		}
		if route.group != "" {
			w.groups = append(w.groups, route.group)
		}
		for j := range route.steps {
			if ended, err := w.take(&route.steps[j]); ended || err != nil {
				return true, err
			}
		}
		if route.terminal {
			return true, nil
		}
	}
	return false, nil
}

// take takes the request through one handler and tells whether it has ended there.
func (w *walk) take(s *step) (ended bool, err error) {
	switch {
	case s.limiter != nil:
		goesOn, err := w.meet(s.limiter, w.request)
		return !goesOn, err
	case s.changes != nil:
		w.passed = false
		err := s.changes.ServeHTTP(&w.writer, w.request, w)
		return !w.passed, err
	case s.ends:
		return true, nil
	}
	return w.run(s.inside)
}

// ServeHTTP notes that a handler has called the next one. It implements [caddyhttp.Handler].
func (w *walk) ServeHTTP(_ http.ResponseWriter, r *http.Request) error {
	w.passed, w.request = true, r
	return nil
}

// nowhereWriter takes a response that nobody gets.
type nowhereWriter struct{ header http.Header }

// Header implements [http.ResponseWriter].
func (w *nowhereWriter) Header() http.Header {
	if w.header == nil {
		w.header = http.Header{}
	}
	return w.header
}

// Write implements [http.ResponseWriter].
func (*nowhereWriter) Write(data []byte) (int, error) { return len(data), nil }

// WriteHeader implements [http.ResponseWriter].
func (*nowhereWriter) WriteHeader(int) {}
