package redisratelimit

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyplan"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/secretfile"
)

// The values of on_unread.
const (
	onUnreadRefuse = "refuse"
	onUnreadPass   = "pass"
)

// matchBody returns the values of the body that the policy's matchers ask for.
func (p *Policy) matchBody() (sources []bodyplan.Source, err error) {
	for _, set := range p.Match {
		for _, matcher := range slices.Sorted(maps.Keys(set)) {
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

// checkBody refuses options about the body that have no effect, as far as the rule has been parsed.
func (p *Policy) checkBody() error {
	switch {
	case p.OnUnread != "" && p.OnUnread != onUnreadRefuse && p.OnUnread != onUnreadPass:
		return fmt.Errorf("on_unread %q: use refuse or pass", secretfile.Redact(p.OnUnread))
	case p.OnUnread != "" && len(p.parsed.MatchBody) == 0:
		return errors.New("on_unread: match asks for no value of the body, such as match vars {json.method} tools/call; leave it out")
	case p.RawKey && !p.parsed.Key.ReadsBody():
		return errors.New("raw_key: the key has no value of the body, such as {json.user} or {form.email}; leave it out")
	}
	return nil
}

// loadMatchers makes the policy's matchers. Those that ask for the body stand at the end of their set, so that no body is
// read if another one does not match.
func (p *Policy) loadMatchers(ctx caddy.Context) (sets caddyhttp.MatcherSets, err error) {
	if len(p.Match) == 0 {
		return nil, nil
	}
	raw := make([]caddy.ModuleMap, 0, len(p.Match))
	for _, set := range p.Match {
		raw = append(raw, maps.Clone(set)) // which loading empties
	}
	loaded, err := ctx.LoadModule(p, "Match")
	if err != nil {
		return nil, fmt.Errorf("match: %w", err)
	}
	all, ok := loaded.([]map[string]any)
	if !ok {
		return nil, fmt.Errorf("match: the matchers are a %T", loaded)
	}
	for i, matchers := range all {
		var ordered caddyhttp.MatcherSet
		for _, ofBody := range []bool{false, true} {
			for _, name := range slices.Sorted(maps.Keys(matchers)) {
				if asks := len(bodyplan.NamesInJSON(raw[i][name], nil)) > 0; asks == ofBody {
					ordered = append(ordered, matchers[name])
				}
			}
		}
		sets = append(sets, ordered)
	}
	return sets, nil
}
