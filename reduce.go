package redisratelimit

import (
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/fileserver"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	caddymetrics "github.com/caddyserver/caddy/v2/modules/metrics"
)

// routePlan is a server's routes, reduced to what decides about rate limits: matchers, subroutes, the
// handlers that change what later ones see (vars, map, rewrite, headers), those that end a request, and
// this module's. Everything else is left out. Nothing that a course runs writes to a client, an
// upstream, a file or a log.
type routePlan struct {
	routes []reducedRoute
	named  map[string]*caddyhttp.Route // that invoke may run
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
	skipped string                      // the name of a handler that only a real request can pass
}

// mutatingHandlers are the handlers that are run because what follows depends on them.
var mutatingHandlers = []string{"vars", "map", "rewrite", "headers"}

// passThroughHandlers are the handlers that let every request on as it is, whatever they do besides.
var passThroughHandlers = []string{
	"copy_response", "copy_response_headers", "encode", "intercept", "log_append", "push", "request_body",
	"templates", "tracing",
}

// handlerSpace begins the names of handlers, where they are written whole.
const handlerSpace = "http.handlers."

// earlyHints is the status of a response that does not end a request.
const earlyHints = "103"

// newRoutePlan reduces routes that are provisioned. The named routes are those that invoke may run.
func newRoutePlan(routes caddyhttp.RouteList, named map[string]*caddyhttp.Route) *routePlan {
	c := &routePlan{named: named}
	c.routes = c.reduce(routes, nil)
	return c
}

// reduce reduces routes, inside of named ones that are being reduced already.
func (r *routePlan) reduce(routes caddyhttp.RouteList, inside []string) (reduced []reducedRoute) {
	for i := range routes {
		route := &routes[i]
		kept := reducedRoute{group: route.Group, terminal: route.Terminal, matchers: route.MatcherSets}
		for _, handler := range route.Handlers {
			if s, ok := r.step(handler, inside); ok {
				kept.steps = append(kept.steps, s)
			}
		}
		reduced = append(reduced, kept)
	}
	return reduced
}

// step reduces one handler. It is false for one that has nothing to do with rate limits.
func (r *routePlan) step(handler caddyhttp.MiddlewareHandler, inside []string) (step, bool) {
	switch handler := handler.(type) {
	case *Handler:
		return step{limiter: handler}, true
	case *caddyhttp.Subroute:
		return step{inside: r.reduce(handler.Routes, inside)}, true
	case *caddyhttp.Invoke:
		route := r.named[handler.Name]
		if route == nil || slices.Contains(inside, handler.Name) {
			return step{ends: true}, true // Caddy answers with an error, or would not end
		}
		return step{inside: r.reduce(caddyhttp.RouteList{*route}, append(inside, handler.Name))}, true
	case *caddyhttp.StaticResponse:
		return step{ends: true}, handler.StatusCode != earlyHints
	}
	name := "unknown"
	if module, ok := handler.(caddy.Module); ok {
		name = string(module.CaddyModule().ID)
	}
	short := strings.TrimPrefix(name, handlerSpace)
	switch {
	case slices.Contains(mutatingHandlers, short):
		return step{changes: handler}, true
	case slices.Contains(passThroughHandlers, short):
		return step{}, false
	case alwaysAnswers(handler):
		return step{ends: true}, true
	}
	return step{skipped: name}, true
}

// alwaysAnswers tells whether a handler answers every request itself, if only with an error.
func alwaysAnswers(handler caddyhttp.MiddlewareHandler) bool {
	switch handler := handler.(type) {
	case *caddyhttp.StaticError, *caddymetrics.Metrics:
		return true
	case *fileserver.FileServer:
		return !handler.PassThru
	case *reverseproxy.Handler: // with routes for a response it may let the request on: forward_auth is one
		return !slices.ContainsFunc(handler.HandleResponse, func(h caddyhttp.ResponseHandler) bool { return len(h.Routes) > 0 })
	}
	return false
}

// hasLimiter tells whether routes have a handler of this module.
func hasLimiter(routes []reducedRoute) bool {
	for i := range routes {
		for j := range routes[i].steps {
			if s := &routes[i].steps[j]; s.limiter != nil || hasLimiter(s.inside) {
				return true
			}
		}
	}
	return false
}
