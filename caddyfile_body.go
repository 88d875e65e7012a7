package redisratelimit

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyplan"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// shortName is a placeholder of this module by its short name, which holds inside of the directive, or such a text behind a
// backslash, which is none.
var shortName = regexp.MustCompile(`\\?\{((?:json|form)\.[^{}]*|credential(?:\.user)?)\}`)

// withFullNames returns the tokens of a directive with the full names of this module's placeholders.
func withFullNames(tokens caddyfile.Segment) *caddyfile.Dispenser {
	for i := range tokens {
		tokens[i].Text = shortName.ReplaceAllStringFunc(tokens[i].Text, func(short string) string {
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

// checkMatcherNames refuses words where the name of a matcher stands, and says what to write for a value of the body. The
// segment is match with one matcher, or with a block of them.
func checkMatcherNames(segment caddyfile.Segment) error {
	d := caddyfile.NewDispenser(segment)
	d.Next()
	for d.NextArg() || d.NextBlock(0) {
		word := d.Val()
		if _, err := caddy.GetModule("http.matchers." + word); err == nil || d.Token().Quoted() { // in quotes stands an expression
			d.NextSegment()
			continue
		}
		short := strings.Trim(rule.ShortNames(word), "{}")
		kind, _, _ := strings.Cut(short, ".")
		if kind != "json" && kind != "form" && kind != "body" {
			return d.Errf("match: Caddy has no matcher %s; write one such as path /api/*, or vars {json.model} large for a value of the body", word)
		}
		value, text := cmp.Or(strings.TrimPrefix(kind, "body"), "json")+".model", "large"
		values := d.RemainingArgs()
		if bodyplan.IsName(bodyplan.Prefix + short) {
			value = short
		}
		if len(values) > 0 {
			text = values[len(values)-1]
		}
		return d.Errf("match: Caddy has no matcher %s; write vars {%s} %s", rule.ShortNames(word), value, text)
	}
	return nil
}
