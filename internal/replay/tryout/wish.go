package tryout

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/simulate"
)

// wish is what matchers ask of a request, as far as it can be made up.
type wish struct {
	method, host, client string

	path    string
	pattern string // of a path matcher, that the path is made for; empty: no such matcher is on the way
	behind  bool   // that matcher is one of the policy, and not of a route in front

	query  url.Values
	header http.Header
	tls    bool

	unknown []string // the matchers that ask for what could not be made up
}

// mostWishes bounds the combinations of matchers of one place that are tried.
const mostWishes = 64

// wishes returns what the matchers on the way to a place ask for, and those of the policy there: for each combination of sets, of which
// one has to match.
func wishes(p *simulate.Place) []wish {
	all := []wish{{}}
	for i, sets := range append(slices.Clone(p.Matchers), p.Rule.Match, p.Rule.Count) {
		if len(sets) == 0 {
			continue
		}
		var next []wish
		for _, w := range all {
			for _, set := range sets[:min(len(sets), mostWishes)] {
				if len(next) < mostWishes {
					next = append(next, w.with(set, i >= len(p.Matchers))...)
				}
			}
		}
		all = next[:min(len(next), mostWishes)]
	}
	return all
}

// pathOfMatcher is a path with the pattern that it is made for.
type pathOfMatcher struct{ path, pattern string }

// with returns the wish with what a set of matchers asks for, which is one of the policy or one in front: a wish for each of its paths.
func (w wish) with(set caddyhttp.MatcherSet, behind bool) []wish {
	w.query, w.header, w.unknown = maps.Clone(w.query), w.header.Clone(), slices.Clone(w.unknown)
	if w.query == nil {
		w.query, w.header = url.Values{}, http.Header{}
	}
	paths := []pathOfMatcher{{w.path, w.pattern}}
	behind = behind && w.pattern == "" || w.behind
	for _, matcher := range set {
		if asked := w.add(matcher); len(asked) > 0 {
			paths = asked
		}
	}
	var all []wish
	for _, path := range paths[:min(len(paths), mostWishes)] {
		one := w
		one.path, one.pattern, one.behind = path.path, path.pattern, behind
		all = append(all, one)
	}
	return all
}

// add adds what a matcher asks for, and returns the paths of which it wants one.
func (w *wish) add(matcher any) (paths []pathOfMatcher) {
	replace := func(text string) string { return caddy.NewReplacer().ReplaceAll(text, "") }
	switch m := matcher.(type) {
	case *caddyhttp.MatchHost:
		if len(*m) > 0 {
			w.host = hostFor(replace((*m)[0]))
		}
	case *caddyhttp.MatchPath:
		for _, pattern := range *m {
			paths = append(paths, pathOfMatcher{pathFor(replace(pattern)), pattern})
		}
	case *caddyhttp.MatchMethod:
		if len(*m) > 0 && w.method == "" {
			w.method = (*m)[0]
		}
	case *caddyhttp.MatchQuery:
		for name, values := range *m {
			w.query.Set(name, firstValue(values))
		}
	case *caddyhttp.MatchHeader:
		for name, values := range *m {
			if values != nil {
				w.header.Set(name, firstHeader(name, values))
			}
		}
	case *caddyhttp.MatchClientIP:
		w.addClient(m.Ranges)
	case *caddyhttp.MatchRemoteIP:
		w.addClient(m.Ranges)
	case *caddyhttp.MatchTLS:
		w.tls = true
	case *caddyhttp.MatchProtocol:
		w.tls = w.tls || *m == "https"
	case *caddyhttp.MatchNot: // most requests are met by none of what is in it
	case *caddyhttp.MatchPathRE:
		return w.addPathRE(m.Pattern)
	case *caddyhttp.MatchHeaderRE:
		w.addHeaderRE(*m)
	default:
		w.addUnknown(matcher)
	}
	return paths
}

func (w *wish) addPathRE(pattern string) (paths []pathOfMatcher) {
	text, ok := textFor(pattern)
	if !ok || strings.ContainsAny(text, " ?#") {
		w.unknown = append(w.unknown, "path_regexp")
		return nil
	}
	if !strings.HasPrefix(text, "/") {
		text = "/" + text
	}
	return []pathOfMatcher{{text, text}}
}

func (w *wish) addHeaderRE(patterns caddyhttp.MatchHeaderRE) {
	for name, pattern := range patterns {
		if text, ok := textFor(pattern.Pattern); ok {
			w.header.Set(name, text)
		} else {
			w.unknown = append(w.unknown, "header_regexp")
		}
	}
}

// addClient adds the first address of ranges.
func (w *wish) addClient(ranges []string) {
	if len(ranges) > 0 && w.client == "" {
		w.client, _, _ = strings.Cut(ranges[0], "/")
	}
}

// addUnknown notes a matcher that asks for what is not made up.
func (w *wish) addUnknown(matcher any) {
	name := "unknown"
	if module, ok := matcher.(caddy.Module); ok {
		name = module.CaddyModule().ID.Name()
	}
	if !slices.Contains(w.unknown, name) {
		w.unknown = append(w.unknown, name)
	}
}

// firstHeader returns a value that one of the patterns of a header meets.
func firstHeader(name string, patterns []string) string {
	if len(patterns) == 0 || patterns[0] == "*" {
		return madeHeader(http.CanonicalHeaderKey(name), firstClient)
	}
	return firstValue(patterns)
}

// firstValue returns a value that one of the patterns of a header or a parameter meets.
func firstValue(patterns []string) string {
	if len(patterns) == 0 || patterns[0] == "*" {
		return tableValue
	}
	return strings.ReplaceAll(caddy.NewReplacer().ReplaceAll(patterns[0], ""), "*", "x")
}
