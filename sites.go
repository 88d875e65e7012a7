package redisratelimit

import (
	"slices"
	"strings"

	"go.uber.org/zap"

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

// maxSites is how many sites the warning about unnamed handlers names.
const maxSites = 10

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

// identityHeaders are those by which well-known authenticating proxies name a user, in their canonical form.
var identityHeaders = []string{
	"Remote-User", "Remote-Email", "Remote-Name", "Remote-Groups",
	"X-Forwarded-User", "X-Forwarded-Email", "X-Forwarded-Preferred-Username",
	"X-Auth-Request-User", "X-Auth-Request-Email", "X-Auth-Request-Preferred-Username",
	"X-Authentik-Username", "X-Authentik-Email", "X-Authentik-Uid",
	"X-Webauth-User", "X-Webauth-Email", "Tailscale-User-Login",
	"Cf-Access-Authenticated-User-Email", "X-Goog-Authenticated-User-Email", "X-Ms-Client-Principal-Name",
}

// warnUnwritten logs, once a place, that a limit is decided by a header as the client wrote it: those that a
// later handler writes, and those of well-known proxies.
func (a *App) warnUnwritten() {
	const (
		order  = "; put both into a route, in the order in which they run"
		later  = "a limit goes by a header before forward_auth or request_header writes it, so that it is what the client wrote" + order
		unsure = "a limit goes by a header before forward_auth or request_header writes it; it is what the client wrote, unless a handler in front writes it too" + order
		never  = "a limit goes by a header that nothing before it writes; it is what the client wrote, unless a proxy in front of Caddy writes it and clients cannot go around that"
	)
	warned := map[routetrace.HeaderRead]bool{}
	for _, read := range routetrace.EarlyReads(a.servers(), requestHeaders) {
		text := never
		switch {
		case read.Later && read.Unsure:
			text = unsure
		case read.Later:
			text = later
		}
		once := read
		if read.Place.Site { // which may stand on several servers, such as one for HTTP and HTTPS
			once.Place.Server = ""
		}
		if warned[once] || !read.Later && (read.Unsure || !slices.Contains(identityHeaders, read.Header)) {
			continue
		}
		warned[once] = true
		a.logger.Warn(text, zap.String("header", read.Header), zap.String("place", read.Place.String()))
	}
}

// requestHeaders returns the request headers that a handler's limits go by; none for handlers of others.
func requestHeaders(handler caddyhttp.MiddlewareHandler) (names []string) {
	h, ok := handler.(*Handler)
	if !ok {
		return nil
	}
	for i := range h.limiter.Rules.Rules {
		names = append(names, h.limiter.Rules.Rules[i].RequestHeaders()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
