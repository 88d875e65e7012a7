package routetrace

import (
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// OfWholeSites returns the handlers of servers that no matcher keeps a request of their site from: around them are matchers of
// hosts alone, subroutes, and named routes that are invoked so. Servers are provisioned.
func OfWholeSites(servers map[string]*caddyhttp.Server) []caddyhttp.MiddlewareHandler {
	w := wholeSites{}
	for _, server := range servers {
		w.named, w.invoked = server.NamedRoutes, map[string]bool{}
		w.routes(server.Routes)
	}
	return w.found
}

// wholeSites collects handlers.
type wholeSites struct {
	named   map[string]*caddyhttp.Route
	invoked map[string]bool
	found   []caddyhttp.MiddlewareHandler
}

func (w *wholeSites) routes(routes caddyhttp.RouteList) {
	for i := range routes {
		if r := &routes[i]; r.Group == "" && hasHostsAlone(r.MatcherSets) {
			for _, handler := range r.Handlers {
				w.handler(handler)
			}
		}
	}
}

func (w *wholeSites) handler(handler caddyhttp.MiddlewareHandler) {
	w.found = append(w.found, handler)
	switch handler := handler.(type) {
	case *caddyhttp.Subroute:
		w.routes(handler.Routes)
	case *caddyhttp.Invoke:
		if route := w.named[handler.Name]; route != nil && !w.invoked[handler.Name] {
			w.invoked[handler.Name] = true
			w.routes(caddyhttp.RouteList{*route})
		}
	}
}

// hasHostsAlone reports whether matchers ask for nothing but the host.
func hasHostsAlone(sets caddyhttp.MatcherSets) bool {
	for _, set := range sets {
		for _, matcher := range set {
			if _, ok := matcher.(*caddyhttp.MatchHost); !ok {
				return false
			}
		}
	}
	return true
}
