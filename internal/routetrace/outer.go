package routetrace

import (
	"fmt"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
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
func (f *flow) noteOuter(handler caddyhttp.MiddlewareHandler) {
	if name := factsOf(handler).Name; outerTexts[name] != nil && len(f.outer) < maxOuter {
		f.outer = append(slices.Clip(f.outer), outerHandler{name, slices.Clone(f.within)})
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
