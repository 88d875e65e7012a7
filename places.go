package redisratelimit

import (
	"strings"

	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// handlersOf returns the places of the handlers that use each policy, in the order of the routes. A policy's
// own match, cost, reserve, enforce and notify stand behind its place.
func (a *App) handlersOf() map[string][]string {
	places := map[string][]string{}
	for handler, place := range routetrace.Handlers(a.servers()) {
		h, ok := handler.(*Handler)
		if !ok {
			continue
		}
		for i := range h.rules.Rules {
			r, text := &h.rules.Rules[i], place.String()
			if match := routetrace.MatchersText(r.Match); match != "" {
				text += ", match " + match
			}
			if r.Texts.Cost != "" {
				text += ", cost " + r.Texts.Cost
			}
			if reserve := r.Reserve.String(); reserve != "" {
				text += ", reserve " + reserve
			}
			if r.Rollout != nil {
				text += ", enforce " + r.Rollout.Fraction().String()
			}
			if len(r.Notify) > 0 {
				text += ", notify " + rule.JoinFractions(r.Notify)
			}
			name := r.Policy.Name()
			places[name] = append(places[name], text)
		}
	}
	return places
}

// maxPlaces is how many places the warning about unnamed handlers names.
const maxPlaces = 10

// enforcesNowhere reports whether all handlers that use a policy only pretend for a key. It is false where no
// handler is found.
func (a *App) enforcesNowhere(policy string, key limiter.EncodedKey) bool {
	pretended := false
	for handler := range routetrace.Handlers(a.servers()) {
		h, ok := handler.(*Handler)
		if !ok {
			continue
		}
		for i := range h.rules.Rules {
			r := &h.rules.Rules[i]
			if r.Policy.Name() != policy {
				continue
			}
			if r.Enforces(key) {
				return false
			}
			pretended = true
		}
	}
	return pretended
}

// warnUnnamed logs that several handlers without a name for their policy share one count: most who write
// two such lines mean two limits.
func (a *App) warnUnnamed() {
	places := a.unnamedPlaces()
	if len(places) < 2 {
		return
	}
	shown := places[:min(maxPlaces, len(places))]
	a.logger.Warn("handlers without a name share the policy "+defaultPolicy+", and so one count for each key; write a name of its own for each limit, or name "+defaultPolicy+" where they are to share one",
		zap.Int("handlers", len(places)), zap.String("places", strings.Join(shown, "; ")))
}

// unnamedPlaces returns the places of the handlers with an unnamed policy. A site on several servers, such as
// one for HTTP and HTTPS, is the same place on each.
func (a *App) unnamedPlaces() (places []string) {
	servers := map[string]string{} // the first one of each site's place
	for handler, place := range routetrace.Handlers(a.servers()) {
		if h, ok := handler.(*Handler); !ok || !h.unnamed {
			continue
		}
		if first, found := servers[place.Route]; place.Site && found && first != place.Server {
			continue
		} else if place.Site {
			servers[place.Route] = place.Server
		}
		places = append(places, place.String())
	}
	return places
}
