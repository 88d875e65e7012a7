package routetrace

import (
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// keptFromPage returns the warnings of policies whose page that waits opens what they reserve, by the matchers around: the page's
// style sheet, which a browser has to load from the page's own URL, may not come to the limit.
func keptFromPage(policies []string, within []caddyhttp.MatcherSets) (texts []string) {
	const text = "policy %q: browsers load the style sheet of the page that waits from the page's own URL, which %s in front of the " +
		"limit tells apart from the page, so that none gets in; leave that out, or write it as match in the policy"
	if len(policies) == 0 {
		return nil
	}
	for _, sets := range within {
		if what := differsForStyleSheet(sets); what != "" {
			for _, policy := range policies {
				texts = append(texts, fmt.Sprintf(text, policy, what))
			}
			return texts
		}
	}
	return nil
}

// differsForStyleSheet names what matchers ask for that a page and its style sheet differ in; empty: nothing that is known.
func differsForStyleSheet(sets caddyhttp.MatcherSets) string {
	var asked MatcherInputs
	asked.addSets(sets, false)
	for _, header := range asked.Headers {
		if strings.HasPrefix(header.Name, "Sec-Fetch-") || slices.Contains(headersOfNavigations, header.Name) {
			return "a matcher of the header " + header.Name
		}
	}
	if asksForQuery(sets, false) {
		return "a matcher of the query"
	}
	return ""
}

// headersOfNavigations are those that browsers send otherwise with style sheets, in their canonical form.
var headersOfNavigations = []string{"Accept", "Referer", "Upgrade-Insecure-Requests"}

// asksForQuery reports whether matchers, which may stand within not, ask for requests without a query, or without some parameters.
func asksForQuery(sets caddyhttp.MatcherSets, negated bool) bool {
	return slices.ContainsFunc(sets, func(set caddyhttp.MatcherSet) bool {
		return slices.ContainsFunc(set, func(matcher any) bool {
			switch matcher := matcher.(type) {
			case *caddyhttp.MatchQuery:
				return negated || len(*matcher) == 0
			case *caddyhttp.MatchNot:
				return asksForQuery(matcher.MatcherSets, !negated)
			case *caddyhttp.MatchExpression:
				return strings.Contains(matcher.Expr, "http.request.uri.query}") || strings.Contains(matcher.Expr, "http.request.uri}")
			}
			return false
		})
	})
}
