package routetrace

import (
	"fmt"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Waiter is a policy at a handler whose requests wait for a place, and keep it until they end. Key is the template of its
// keys: policies share places by name and key.
type Waiter struct {
	Policy, Key string
	Match       caddyhttp.MatcherSets // its own; empty: all requests
}

// sharesPlaces reports whether requests of both wait for the same places, where their keys are the same.
func (w *Waiter) sharesPlaces(other *Waiter) bool {
	return w.Policy == other.Policy && w.Key == other.Key
}

// waiterInFront is a waiter in front of handlers to come, whose requests may have a place already. It is at a place of the
// routes as an [outerHandler] is.
type waiterInFront struct {
	Waiter
	at outerHandler
}

// waitOrder is that requests with a place of the first policy wait for a place of the second.
type waitOrder struct {
	first, second Waiter
	place         place // of the second
}

// noteWaiter notes the waiter of a handler, and warns if requests with a place of it or of one in front wait for each other.
func (f *flow) noteWaiter(s *Subject, place place) {
	w := s.Waiter
	if w == nil {
		return
	}
	for i := range f.waiters {
		front := &f.waiters[i]
		if !f.meets(&front.at, s) {
			continue
		}
		if front.sharesPlaces(w) {
			f.found.add(place, fmt.Sprintf("policy %q: a request waits here for a place while it has one from a directive in front, so that "+
				"requests wait for each other; give them policies of two names, or leave one out", w.Policy))
			continue
		}
		f.found.addOrder(waitOrder{front.Waiter, *w, place})
	}
	if len(f.waiters) < maxOuter {
		within := slices.Clone(f.within)
		if len(w.Match) > 0 {
			within = append(within, w.Match)
		}
		f.waiters = append(slices.Clip(f.waiters), waiterInFront{*w, outerHandler{within: within}})
	}
}

// addOrder notes an order of two waiters, once, and warns if the other order is there too.
func (f *findings) addOrder(o waitOrder) {
	isSame := func(other waitOrder) bool {
		return other.first.sharesPlaces(&o.first) && other.second.sharesPlaces(&o.second)
	}
	isReverse := func(other waitOrder) bool {
		return other.first.sharesPlaces(&o.second) && other.second.sharesPlaces(&o.first)
	}
	if slices.ContainsFunc(f.orders, isSame) {
		return
	}
	f.orders = append(f.orders, o)
	if i := slices.IndexFunc(f.orders, isReverse); i >= 0 {
		f.warnings = append(f.warnings, Warning{
			Place: f.orders[i].place.String() + "; " + o.place.String(),
			Text: fmt.Sprintf("policies %q and %q: requests have a place of the one and wait for the other, in both orders, so that they "+
				"wait for each other; have requests meet them in one order everywhere", o.second.Policy, o.first.Policy),
		})
	}
}
