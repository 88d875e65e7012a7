package redisratelimit

import (
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// loadMatchers makes the policy's matchers.
func (p *Policy) loadMatchers(ctx caddy.Context) (caddyhttp.MatcherSets, error) {
	var sets caddyhttp.MatcherSets
	if len(p.Match) == 0 {
		return nil, nil
	}
	loaded, err := ctx.LoadModule(p, "Match")
	if err != nil {
		return nil, fmt.Errorf("match: %w", err)
	}
	if err := sets.FromInterface(loaded); err != nil {
		return nil, fmt.Errorf("match: %w", err)
	}
	return sets, nil
}

// applies tells whether the rule counts a request.
func (rule *rule) applies(r *http.Request) (bool, error) {
	if len(rule.match) == 0 {
		return true, nil
	}
	matches, err := rule.match.AnyMatchWithError(r)
	if err != nil {
		return false, fmt.Errorf("matching the requests of policy %q: %w", rule.policy.Name(), err)
	}
	return matches, nil
}
