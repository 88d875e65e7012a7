package redisratelimit

import (
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// handlersOf returns the sites of the handlers that use each policy, in the order of the routes. A policy's
// own match, cost, reserve, enforce and notify stand behind its site.
func (a *App) handlersOf() map[string][]string {
	sites := map[string][]string{}
	for handler, site := range routetrace.Handlers(a.servers()) {
		h, ok := handler.(*Handler)
		if !ok {
			continue
		}
		for i := range h.limiter.Rules.Rules {
			r, parts := &h.limiter.Rules.Rules[i], []string{site.String()}
			for _, own := range [][2]string{
				{"match", routetrace.MatchersText(r.Match)}, {"cost", r.Texts.Cost}, {"reserve", r.Reserve.String()},
				{"enforce", r.Rollout.String()}, {"notify", rule.JoinFractions(r.Notify)},
			} {
				if own[1] != "" {
					parts = append(parts, own[0]+" "+own[1])
				}
			}
			name := r.Policy.Name()
			sites[name] = append(sites[name], strings.Join(parts, ", "))
		}
	}
	return sites
}

// enforcesNowhere reports whether all handlers that use a policy only pretend for a key. It is false where no
// handler is found.
func (a *App) enforcesNowhere(policy string, key limiter.EncodedKey) (pretended bool) {
	for _, set := range a.rules {
		for i := range set.Rules {
			switch r := &set.Rules[i]; {
			case r.Policy.Name() != policy:
			case r.Enforces(key):
				return false
			default:
				pretended = true
			}
		}
	}
	return pretended
}
