package redisratelimit

import (
	"context"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

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

// logWarnings logs what the routes of the app's configuration can hardly mean.
func (a *App) logWarnings() {
	noticed.logValidated(a.logger, routetrace.Warnings(a.servers(), subjectOf))
}

// wasValidated reports whether the app is cleaned up because its configuration was validated, and is not to be started:
// Caddy then calls nothing else once all routes are set up.
func (a *App) wasValidated() bool {
	const causeOfCaddy = "validation complete"
	cause := context.Cause(a.ctx)
	return cause != nil && cause.Error() == causeOfCaddy
}

// subjectOf returns what warnings depend on of a handler; nil for handlers of others.
func subjectOf(handler caddyhttp.MiddlewareHandler) *routetrace.Subject {
	h, ok := handler.(*Handler)
	if !ok {
		return nil
	}
	s := &routetrace.Subject{Usage: h.Usage, JSON: h.configured, Unnamed: h.unnamed}
	for _, p := range h.Policies {
		s.Alone = append(s.Alone, p.warnings()...)
	}
	for i := range h.limiter.Rules.Rules {
		r := &h.limiter.Rules.Rules[i]
		for _, header := range r.RequestHeaders() {
			if !slices.Contains(clientHeaders, header) { // of which the policy warns
				s.Headers = routetrace.AppendNew(s.Headers, header)
			}
		}
		s.Placeholders = routetrace.AppendNew(s.Placeholders, r.Placeholders()...)
		s.Matches = append(s.Matches, r.Match)
	}
	slices.Sort(s.Headers)
	return s
}
