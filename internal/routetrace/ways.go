package routetrace

import (
	"iter"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Way is a way of requests to a handler with a limiter.
type Way struct {
	// Limiting is the handler at the end of the way.
	Limiting Limiting

	// Matchers are those of the routes on the way, the outermost first. Routes without matchers are left out.
	Matchers []caddyhttp.MatcherSets
}

// Ways returns the ways to the handlers with a limiter that requests to the tree's server may meet, in the order of
// [Tree.Limiters].
func (t *Tree) Ways() iter.Seq[Way] {
	return func(yield func(Way) bool) { eachWay(t.lists[0].routes, nil, yield) }
}

// eachWay calls a function for the ways through routes, behind the matchers of the routes around, until it is false, and
// reports whether it never was.
func eachWay(routes []route, around []caddyhttp.MatcherSets, yield func(Way) bool) bool {
	around = around[:len(around):len(around)]
	for i := range routes {
		on := around
		if len(routes[i].matchers) > 0 {
			on = append(around, routes[i].matchers) //nolint:gocritic // around has no room, so that this is a copy
		}
		for j := range routes[i].handlers {
			h := &routes[i].handlers[j]
			if h.kind == limits && !yield(Way{h.limiting, on}) {
				return false
			}
			if next := h.next(); next != nil && !eachWay(next.routes, on, yield) {
				return false
			}
		}
	}
	return true
}
