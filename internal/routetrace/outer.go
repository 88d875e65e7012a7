package routetrace

import (
	"fmt"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// outerHandler is a handler of another author that stands in front of limits and thereby decides what they get to see.
type outerHandler struct {
	name   string                  // of outerTexts
	within []caddyhttp.MatcherSets // of the routes around it that have matchers, the outermost first
}

// outerTexts returns, by the name of the module, what is wrong with a handler in front of limits; nothing if it may stand
// there.
var outerTexts = map[string]func(*Subject) []string{
	"cache": func(*Subject) []string { // cache-handler
		return []string{"cache in front of this limit answers requests that are not counted, and shows one client the quota, or the " +
			"denial, of another; write order cache after redis_ratelimit, or put both into a route, the limit first"}
	},
	"rate_limit": func(s *Subject) []string { // of mholt and others
		const text = "policy %q: requests that rate_limit refuses in front of it do not reach this dry run; " +
			"write order redis_ratelimit before rate_limit, or put both into a route, the dry run first"
		return textsOf(text, s.DryRuns)
	},
	"waf": func(s *Subject) []string { // coraza
		const text = "policy %q: what coraza_waf refuses with 403 in front of it does not reach count_if; " +
			"put both into a route, the limit first"
		return textsOf(text, s.CountingForbidden)
	},
}

func textsOf(format string, policies []string) (texts []string) {
	for _, policy := range policies {
		texts = append(texts, fmt.Sprintf(format, policy))
	}
	return texts
}

// maxOuter is how many handlers are kept of those in front, so that a list of many takes no longer than it is.
const maxOuter = 64

// noteOuter notes a handler that is in front of those to come.
func (f *flow) noteOuter(h *handler) {
	if outerTexts[h.Name] != nil && len(f.outer) < maxOuter {
		f.outer = append(slices.Clip(f.outer), outerHandler{h.Name, f.within})
	}
}

// warnOfOuter warns of handlers in front of limits that requests certainly meet together with them.
func (f *flow) warnOfOuter(s *Subject, place place) {
	for i := range f.outer {
		outer := &f.outer[i]
		if !f.meets(outer, s) {
			continue
		}
		for _, text := range outerTexts[outer.name](s) {
			f.found.add(place, text)
		}
	}
}

// meets reports whether requests certainly meet a handler in front and a limit here: not if both have matchers of their
// own, which may exclude each other.
func (f *flow) meets(outer *outerHandler, s *Subject) bool {
	common := commonRoutes(outer.within, f.within)
	hasAll := slices.ContainsFunc(s.Matches, func(match caddyhttp.MatcherSets) bool { return len(match) == 0 })
	return len(outer.within) == common || len(f.within) == common && hasAll
}

// waiterInFront is a waiter in front of handlers to come, whose requests may have a place already. It is at a place of the
// routes as an [outerHandler] is.
type waiterInFront struct {
	Waiter
	at outerHandler
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
		within := f.within
		if len(w.Match) > 0 {
			within = append(slices.Clip(within), w.Match)
		}
		f.waiters = append(slices.Clip(f.waiters), waiterInFront{*w, outerHandler{within: within}})
	}
}

// placesInFront is a policy with max_concurrent in front of handlers to come, which all requests share or whose turns go round
// by a value.
type placesInFront struct {
	PlacePolicy
	at outerHandler
}

// notePlaces warns of policies with max_concurrent that count by address, as their key is left out, though their requests have met
// a policy in front whose places or turns go by something else. It notes policies that are such themselves.
func (f *flow) notePlaces(s *Subject, place place) {
	const text = "policy %q: max_concurrent without a key counts by address, behind policy %q %s; " +
		"write key %s, or key {client_ip} where each address is meant"
	for i := range s.Places {
		p := &s.Places[i]
		if !p.Keyless {
			continue
		}
		for j := range f.places {
			front := &f.places[j]
			if len(p.Match) > 0 && len(front.at.within) > 0 || !f.meets(&front.at, &Subject{Matches: []caddyhttp.MatcherSets{p.Match}}) {
				continue
			}
			goesBy, key := "by which all requests share places", "everyone"
			if front.By != "" {
				key = rule.ShortNames(front.By)
				goesBy = "whose turns go round by " + key
			}
			f.found.add(place, fmt.Sprintf(text, p.Policy, front.Policy, goesBy, key))
			break
		}
	}
	for _, p := range s.Places {
		if (p.Shared || p.By != "") && len(f.places) < maxOuter {
			within := f.within
			if len(p.Match) > 0 {
				within = append(slices.Clip(within), p.Match)
			}
			f.places = append(slices.Clip(f.places), placesInFront{p, outerHandler{within: within}})
		}
	}
}
