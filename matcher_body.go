package redisratelimit

import (
	"fmt"
	"maps"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyplan"
)

// The values of on_unread.
const (
	onUnreadRefuse = "refuse"
	onUnreadPass   = "pass"
)

// bodySources returns the values of the body that matchers ask for.
func bodySources(sets caddyhttp.RawMatcherSets) (sources []bodyplan.Source, err error) {
	for _, set := range sets {
		for _, matcher := range slices.Sorted(maps.Keys(set)) {
			if short := bodyplan.ShortNamesInJSON(set[matcher], nil); len(short) > 0 {
				return nil, fmt.Errorf("match: {%s} is of the Caddyfile; in JSON write {%s%[1]s}", short[0], bodyplan.Prefix)
			}
			for _, name := range bodyplan.NamesInJSON(set[matcher], nil) {
				source, err := bodyplan.ParseSource(name)
				if err != nil {
					return nil, fmt.Errorf("match: {%s}: %w", name, err)
				}
				sources = append(sources, source)
			}
		}
	}
	return sources, nil
}
