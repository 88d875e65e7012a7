package routetrace

import (
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Narrows reports whether matchers select requests by their method or path, or by what only requests of some methods and
// paths have, such as a body. What is not known of a matcher counts as yes. Those of clients, hosts and connections do
// not narrow.
func Narrows(sets caddyhttp.MatcherSets) bool {
	return len(sets) > 0 && !slices.ContainsFunc(sets, func(set caddyhttp.MatcherSet) bool { return !setNarrows(set) })
}

func setNarrows(set caddyhttp.MatcherSet) bool {
	return slices.ContainsFunc(set, func(matcher any) bool {
		switch matcher := matcher.(type) {
		case *caddyhttp.MatchHost, *caddyhttp.MatchClientIP, *caddyhttp.MatchRemoteIP, *caddyhttp.MatchProtocol, *caddyhttp.MatchTLS:
			return false
		case *caddyhttp.MatchHeader:
			return isOfBody(*matcher)
		case *caddyhttp.MatchHeaderRE:
			return isOfBody(*matcher)
		case *caddyhttp.MatchNot:
			return slices.ContainsFunc(matcher.MatcherSets, setNarrows)
		}
		return true
	})
}

// isOfBody reports whether one of the headers is about the request's body.
func isOfBody[V any](headers map[string]V) bool {
	for name := range headers {
		switch http.CanonicalHeaderKey(name) {
		case "Content-Type", "Content-Length", "Transfer-Encoding":
			return true
		}
	}
	return false
}
