package redisratelimit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyplan"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// bodySources returns the values of the body that matchers ask for.
func bodySources(option string, sets caddyhttp.RawMatcherSets) (sources []bodyplan.Source, err error) {
	for _, set := range sets {
		for _, matcher := range slices.Sorted(maps.Keys(set)) {
			if short := bodyplan.ShortNamesInJSON(set[matcher], nil); len(short) > 0 {
				return nil, fmt.Errorf("%s: {%s} is of the Caddyfile; in JSON write {%s%[2]s}", option, short[0], bodyplan.Prefix)
			}
			if name := bareBodyName(matcher, set[matcher]); name != "" {
				return nil, fmt.Errorf("%s: %s without braces is the name of a variable; write {%[2]s}, in JSON {%s%[2]s}, "+
					"or {http.vars.%[2]s} for a variable of that name", option, name, bodyplan.Prefix)
			}
			for _, name := range bodyplan.NamesInJSON(set[matcher], nil) {
				source, err := bodyplan.ParseSource(name)
				if err != nil {
					return nil, fmt.Errorf("%s: %s: %w", option, rule.ShortNames("{"+name+"}"), err)
				}
				sources = append(sources, source)
			}
		}
	}
	return sources, nil
}

// bareBodyName returns a value of the body that a matcher of variables has without braces, as the name of a variable, also
// within not; empty: none.
func bareBodyName(matcher string, raw json.RawMessage) string {
	switch matcher {
	case "vars", "vars_regexp":
		var variables map[string]json.RawMessage
		_ = json.Unmarshal(raw, &variables) // what is no object is refused when it is set up
		for _, name := range slices.Sorted(maps.Keys(variables)) {
			short := strings.TrimPrefix(name, bodyplan.Prefix)
			if bodyplan.IsName(bodyplan.Prefix + short) {
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
