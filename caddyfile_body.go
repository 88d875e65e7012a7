package redisratelimit

import (
	"fmt"
	"regexp"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyplan"
)

// shortBodyName is a placeholder of the request's body by its short name, which holds inside of the directive, or such a
// text behind a backslash, which is none.
var shortBodyName = regexp.MustCompile(`\\?\{((?:json|form)\.[^{}]*)\}`)

// withFullNames returns the tokens of a directive with the full names of the body's placeholders.
func withFullNames(tokens caddyfile.Segment) *caddyfile.Dispenser {
	for i := range tokens {
		tokens[i].Text = shortBodyName.ReplaceAllStringFunc(tokens[i].Text, func(short string) string {
			if short[0] == '\\' {
				return short
			}
			return "{" + bodyplan.Prefix + short[1:]
		})
	}
	return caddyfile.NewDispenser(tokens)
}

// checkNamedMatcher refuses short names of the body's placeholders in a named matcher, which stands outside of the directive.
func checkNamedMatcher(name string, set caddy.ModuleMap) error {
	for _, raw := range set {
		if short := bodyplan.ShortNamesInJSON(raw, nil); len(short) > 0 {
			return fmt.Errorf("match %s: {%s} is a short name, which only the directive has; in the matcher write {%s%[2]s}",
				name, short[0], bodyplan.Prefix)
		}
	}
	return nil
}

// bodyNameIn returns a placeholder of the body that a set of matchers asks for, by its short or full name; empty: none.
func bodyNameIn(set caddy.ModuleMap) string {
	for _, raw := range set {
		if names := append(bodyplan.NamesInJSON(raw, nil), bodyplan.ShortNamesInJSON(raw, nil)...); len(names) > 0 {
			return names[0]
		}
	}
	return ""
}
