package routetrace

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// place is where a handler stands in a configuration.
type place struct {
	// Server is the server's name, and where it listens; empty in a [Tree].
	Server string

	// Route is what requests must be to come there, by the matchers of the routes around the handler; empty: all.
	Route string

	// Site says that one of these matchers is for hosts.
	Site bool
}

// ofServer returns the place of all requests of a server.
func ofServer(server string) place { return place{Server: server} }

// String returns the place for people.
func (p place) String() string { return p.Server + " " + cmp.Or(p.Route, "all requests") }

// within returns the place of a route with matchers.
func (p place) within(sets caddyhttp.MatcherSets) place {
	text, hosts := describe(sets)
	p.Site = p.Site || hosts
	return p.inside(text)
}

// inside returns the place of what is described by a text; empty: all that is at the place.
func (p place) inside(text string) place {
	if p.Route != "" && text != "" {
		text = " " + text
	}
	p.Route += text
	return p
}

// MatchersText describes matchers: hosts, paths and methods by their values, others by their names. All matchers
// between two "or" must match, and "not" is for those in the parentheses behind it. The text is empty for all
// requests.
func MatchersText(sets caddyhttp.MatcherSets) string {
	text, _ := describe(sets)
	return text
}

// describe describes matchers, and reports whether one is for hosts.
func describe(sets caddyhttp.MatcherSets) (text string, hosts bool) {
	var alternatives []string
	for _, set := range sets {
		hosts = hosts || slices.ContainsFunc(set, func(matcher any) bool {
			_, ok := matcher.(*caddyhttp.MatchHost)
			return ok
		})
		alternatives = append(alternatives, setText(set))
	}
	if text = strings.Join(alternatives, " or "); len(alternatives) > 1 {
		text = "(" + text + ")"
	}
	return text, hosts
}

// setText describes matchers that must all match, sorted: in the JSON they stand in a map. A negation of several
// sets is several negations.
func setText(set caddyhttp.MatcherSet) string {
	var all []string
	for _, matcher := range set {
		if not, ok := matcher.(*caddyhttp.MatchNot); ok {
			for _, set := range not.MatcherSets {
				all = append(all, "not ("+setText(set)+")")
			}
			continue
		}
		all = append(all, matcherText(matcher))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func matcherText(matcher any) string {
	switch matcher := matcher.(type) {
	case *caddyhttp.MatchHost:
		return "host " + someOf(*matcher)
	case *caddyhttp.MatchPath:
		return "path " + someOf(*matcher)
	case *caddyhttp.MatchMethod:
		return "method " + someOf(*matcher)
	case caddy.Module:
		return "by " + strings.TrimPrefix(string(matcher.CaddyModule().ID), "http.matchers.")
	}
	return "by another matcher"
}

// someOf joins the first values. The names of a site can be many. A value that could be taken for several, or for
// the end of the list, is quoted.
func someOf(values []string) string {
	const most = 3
	var shown []string
	for _, value := range values[:min(most, len(values))] {
		if value == "" || strings.ContainsAny(value, " ,()\"") {
			value = strconv.Quote(value)
		}
		shown = append(shown, value)
	}
	text := strings.Join(shown, ",")
	if len(values) > most {
		text += fmt.Sprintf(" and %d more", len(values)-most)
	}
	return text
}
