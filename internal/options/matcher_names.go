package options

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
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
			return "{" + bodyvalue.PlaceholderPrefix + short[1:]
		})
	}
	return caddyfile.NewDispenser(tokens)
}

// checkNamedMatcher refuses short names of the body's placeholders in a named matcher, which stands outside of the directive.
func checkNamedMatcher(name string, set caddy.ModuleMap) error {
	for _, raw := range set {
		if short := bodyvalue.ShortNamesInJSON(raw, nil); len(short) > 0 {
			return fmt.Errorf("match %s: {%s} is a short name, which only the directive has; in the matcher write {%s%[2]s}",
				name, short[0], bodyvalue.PlaceholderPrefix)
		}
	}
	return nil
}

// bodyNameIn returns a placeholder of the body that a set of matchers asks for, by its short or full name; empty: none.
func bodyNameIn(set caddy.ModuleMap) string {
	for _, raw := range set {
		if names := append(bodyvalue.NamesInJSON(raw, nil), bodyvalue.ShortNamesInJSON(raw, nil)...); len(names) > 0 {
			return names[0]
		}
	}
	return ""
}

// checkMatcherNames refuses words where the name of a matcher stands, and says what to write for a value of the body. The
// segment is match with one matcher, or with a block of them.
func (p *optionParser) checkMatcherNames(segment caddyfile.Segment) error {
	d := caddyfile.NewDispenser(segment)
	d.Next()
	for d.NextArg() || d.NextBlock(0) {
		word := d.Val()
		if err := p.checkNegation(d, segment[0]); err != nil {
			return err
		}
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
		if bodyvalue.IsPlaceholder(bodyvalue.PlaceholderPrefix + short) {
			value = short
		}
		if len(values) > 0 {
			text = values[len(values)-1]
		}
		return d.Errf("match: Caddy has no matcher %s; write vars {%s} %s", rule.ShortNames(word), value, text)
	}
	return nil
}

// checkNegation refuses the name of a matcher behind not, which takes matchers themselves. The option is the token of match or
// count.
func (p *optionParser) checkNegation(d *caddyfile.Dispenser, option caddyfile.Token) error {
	ahead := *d
	if ahead.Val() != "not" || !ahead.NextArg() || !strings.HasPrefix(ahead.Val(), "@") {
		return nil
	}
	const text = "%s: not takes matchers, and no name of one; write %s"
	name := ahead.Token()
	name.Line = option.Line // as if it stood behind match
	named := caddyfile.NewDispenser(caddyfile.Segment{option, name})
	named.Next()
	set, _, _ := p.helper.WithDispenser(named).MatcherToken()
	instead := option.Text + " { not { ... } } with the lines of " + ahead.Val() + " inside of not"
	for _, matcher := range []string{"path", "method", "host"} {
		if values := valuesOf(set, matcher); len(set) == 1 && len(values) > 0 {
			instead = "not " + matcher + " " + strings.Join(values, " ")
			if d.Nesting() == 0 {
				instead = option.Text + " " + instead
			}
		}
	}
	return d.Errf(text, option.Text, instead)
}

// bodySources returns the values of the body that matchers ask for.
func bodySources(option string, sets caddyhttp.RawMatcherSets) (sources []bodyvalue.ValueSource, err error) {
	for _, set := range sets {
		for _, matcher := range slices.Sorted(maps.Keys(set)) {
			if short := bodyvalue.ShortNamesInJSON(set[matcher], nil); len(short) > 0 {
				return nil, fmt.Errorf("%s: {%s} is of the Caddyfile; in JSON write {%s%[2]s}", option, short[0], bodyvalue.PlaceholderPrefix)
			}
			if name := bareBodyName(matcher, set[matcher]); name != "" {
				return nil, fmt.Errorf("%s: %s without braces is the name of a variable; write {%[2]s}, in JSON {%s%[2]s}, "+
					"or {http.vars.%[2]s} for a variable of that name", option, name, bodyvalue.PlaceholderPrefix)
			}
			if err := checkPatterns(option, matcher, set[matcher]); err != nil {
				return nil, err
			}
			for _, name := range bodyvalue.NamesInJSON(set[matcher], nil) {
				source, err := bodyvalue.ParseSource(name)
				if err != nil {
					return nil, fmt.Errorf("%s: %s: %w", option, rule.ShortNames("{"+name+"}"), err)
				}
				sources = append(sources, source)
			}
		}
	}
	return sources, nil
}

// pattern is what the matchers with regular expressions have in JSON.
type pattern struct {
	Pattern string `json:"pattern"`
}

// checkPatterns refuses values of the body in the regular expressions of a matcher, also within not: Caddy takes these as they
// stand, so that they match nothing.
func checkPatterns(option, matcher string, raw json.RawMessage) error {
	patterns := map[string]pattern{}
	switch matcher {
	case "header_regexp", "vars_regexp":
		_ = json.Unmarshal(raw, &patterns) // what is no object is refused when it is set up
	case "path_regexp":
		var of pattern
		_ = json.Unmarshal(raw, &of)
		patterns["{path}"] = of
	case "not":
		var sets caddyhttp.RawMatcherSets
		_ = json.Unmarshal(raw, &sets)
		for _, set := range sets {
			for _, matcher := range slices.Sorted(maps.Keys(set)) {
				if err := checkPatterns(option, matcher, set[matcher]); err != nil {
					return err
				}
			}
		}
	}
	for _, compared := range slices.Sorted(maps.Keys(patterns)) {
		text, value := patterns[compared].Pattern, compared
		name := valueIn(text)
		if name == "" {
			continue
		}
		switch {
		case matcher == "header_regexp":
			value = "{header." + compared + "}"
		case !strings.HasPrefix(compared, "{"):
			value = "{vars." + compared + "}"
		}
		name = rule.ShortNames("{" + name + "}")
		return fmt.Errorf("%s: %s: a regular expression is taken as it stands, without what %s is in a request; write vars %[3]s %[4]s "+
			"where both are to be the same, or vars_regexp %[3]s and a pattern", option, matcher, name, rule.ShortNames(value))
	}
	return nil
}

// valueIn returns the name of a value of the body in a text, without braces; empty: none.
func valueIn(text string) string {
	quoted, _ := json.Marshal(text)
	if names := bodyvalue.NamesInJSON(quoted, nil); len(names) > 0 {
		return names[0]
	}
	return ""
}

// bareBodyName returns a value of the body that a matcher of variables has without braces, as the name of a variable, also
// within not; empty: none.
func bareBodyName(matcher string, raw json.RawMessage) string {
	switch matcher {
	case "vars", "vars_regexp":
		var variables map[string]json.RawMessage
		_ = json.Unmarshal(raw, &variables) // what is no object is refused when it is set up
		for _, name := range slices.Sorted(maps.Keys(variables)) {
			short := strings.TrimPrefix(name, bodyvalue.PlaceholderPrefix)
			if bodyvalue.IsPlaceholder(bodyvalue.PlaceholderPrefix + short) {
				return short
			}
		}
	case "not":
		var sets caddyhttp.RawMatcherSets
		_ = json.Unmarshal(raw, &sets)
		for _, set := range sets {
			for _, matcher := range slices.Sorted(maps.Keys(set)) {
				if name := bareBodyName(matcher, set[matcher]); name != "" {
					return name
				}
			}
		}
	}
	return ""
}
