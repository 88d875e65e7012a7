// Package routetrace reduces the routes of a configuration to what decides about rate limits, and
// takes requests through them.
//
// Explain and replay trace requests through the same plans. Nothing that a plan runs writes to a
// client, an upstream, a file or a log.
package routetrace

import (
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
)

// Limiting is a handler that has a limiter.
type Limiting interface {
	// RateLimiter returns a copy of the limiter, whose rules the caller may replace. The handler is provisioned.
	RateLimiter() *gate.Limiter
}

// Plan is a server's routes, reduced to what decides: matchers, subroutes, the handlers that change
// what later ones see (vars, map, rewrite, headers), those that end a request, and limiters.
type Plan struct {
	// Routes are tried in this order.
	Routes []plannedRoute

	named map[string]*caddyhttp.Route // that invoke may run
}

// plannedRoute is a route with what is left of its handlers.
type plannedRoute struct {
	Group    string
	Terminal bool
	Matchers caddyhttp.MatcherSets
	Steps    []plannedStep
}

// plannedStep is one handler of a route; exactly one of its fields is set.
type plannedStep struct {
	// Limiter is visited.
	Limiter *gate.Limiter

	// Inside are the routes of a subroute.
	Inside []plannedRoute

	// Mutates changes the request and calls the next handler, or ends the request.
	Mutates caddyhttp.MiddlewareHandler

	// Ends says that the handler answers every request.
	Ends bool

	// Skipped is the name of a handler that only a real request can pass.
	Skipped string
}

// NewPlan reduces routes that are provisioned. The named routes are those that invoke may run.
func NewPlan(routes caddyhttp.RouteList, named map[string]*caddyhttp.Route) *Plan {
	p := &Plan{named: named}
	p.Routes = p.reduce(routes, nil)
	return p
}

// HasLimiter reports whether a request may meet a limiter.
func (p *Plan) HasLimiter() bool { return hasLimiter(p.Routes) }

// Limiters calls a function for every limiter, in the order of the routes, and removes those for which
// it is false.
func (p *Plan) Limiters(keep func(*gate.Limiter) bool) { keepLimiters(p.Routes, keep) }

func keepLimiters(routes []plannedRoute, keep func(*gate.Limiter) bool) {
	for i := range routes {
		routes[i].Steps = slices.DeleteFunc(routes[i].Steps, func(s plannedStep) bool {
			keepLimiters(s.Inside, keep)
			return s.Limiter != nil && !keep(s.Limiter)
		})
	}
}

// reduce reduces routes, inside of named ones that are being reduced already.
func (p *Plan) reduce(routes caddyhttp.RouteList, inside []string) (reduced []plannedRoute) {
	for i := range routes {
		route := &routes[i]
		kept := plannedRoute{Group: route.Group, Terminal: route.Terminal, Matchers: route.MatcherSets}
		for _, handler := range route.Handlers {
			if s, ok := p.step(handler, inside); ok {
				kept.Steps = append(kept.Steps, s)
			}
		}
		reduced = append(reduced, kept)
	}
	return reduced
}

// step reduces one handler. It is false for a handler that does not concern rate limits.
func (p *Plan) step(handler caddyhttp.MiddlewareHandler, inside []string) (plannedStep, bool) {
	switch handler := handler.(type) {
	case Limiting:
		return plannedStep{Limiter: handler.RateLimiter()}, true
	case *caddyhttp.Subroute:
		return plannedStep{Inside: p.reduce(handler.Routes, inside)}, true
	case *caddyhttp.Invoke:
		route := p.named[handler.Name]
		if route == nil || slices.Contains(inside, handler.Name) {
			return plannedStep{Ends: true}, true // Caddy answers with an error, or would not end
		}
		return plannedStep{Inside: p.reduce(caddyhttp.RouteList{*route}, append(inside, handler.Name))}, true
	}
	facts := factsOf(handler)
	switch facts.Effect() {
	case Mutates:
		return plannedStep{Mutates: handler}, true
	case PassesThrough:
		return plannedStep{}, false
	case Answers:
		return plannedStep{Ends: true}, true
	}
	return plannedStep{Skipped: facts.moduleID()}, true
}

// hasLimiter reports whether routes have a limiter.
func hasLimiter(routes []plannedRoute) bool {
	for i := range routes {
		for j := range routes[i].Steps {
			if s := &routes[i].Steps[j]; s.Limiter != nil || hasLimiter(s.Inside) {
				return true
			}
		}
	}
	return false
}
