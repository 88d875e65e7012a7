package redisratelimit

import (
	"strings"

	"go.uber.org/zap"

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
			r, text := &h.limiter.Rules.Rules[i], site.String()
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
			sites[name] = append(sites[name], text)
		}
	}
	return sites
}

// maxSites is how many sites the warning about unnamed handlers names.
const maxSites = 10

// enforcesNowhere reports whether all handlers that use a policy only pretend for a key. It is false where no
// handler is found.
func (a *App) enforcesNowhere(policy string, key limiter.EncodedKey) bool {
	pretended := false
	for handler := range routetrace.Handlers(a.servers()) {
		h, ok := handler.(*Handler)
		if !ok {
			continue
		}
		for i := range h.limiter.Rules.Rules {
			r := &h.limiter.Rules.Rules[i]
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
	sites := a.unnamedSites()
	if len(sites) < 2 {
		return
	}
	shown := sites[:min(maxSites, len(sites))]
	a.logger.Warn("handlers without a name share the policy "+defaultPolicy+", and so one count for each key; write a name of its own for each limit, or name "+defaultPolicy+" where they are to share one",
		zap.Int("handlers", len(sites)), zap.String("places", strings.Join(shown, "; ")))
}

// unnamedSites returns where the handlers with an unnamed policy stand. One of several servers, such as those of a
// site block for HTTP and HTTPS, is one.
func (a *App) unnamedSites() (sites []string) {
	servers := map[string]string{} // the first of each route
	for handler, site := range routetrace.Handlers(a.servers()) {
		if h, ok := handler.(*Handler); !ok || !h.unnamed {
			continue
		}
		if first, found := servers[site.Route]; site.Site && found && first != site.Server {
			continue
		} else if site.Site {
			servers[site.Route] = site.Server
		}
		sites = append(sites, site.String())
	}
	return sites
}
