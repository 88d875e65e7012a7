package redisratelimit

import (
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
)

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
	warned := map[routetrace.HeaderRead]bool{}
	for _, read := range routetrace.EarlyReads(a.servers(), requestHeaders) {
		text := "a limit goes by a header before forward_auth or request_header writes it, so that it is what the client wrote; put both into a route, in the order in which they run"
		if !read.Later {
			text = "a limit goes by a header that nothing before it writes; it is what the client wrote, unless a proxy in front of Caddy writes it and clients cannot go around that"
		}
		once := read
		if read.Place.Site { // which may stand on several servers, such as one for HTTP and HTTPS
			once.Place.Server = ""
		}
		if warned[once] || !read.Later && !slices.Contains(identityHeaders, read.Header) {
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
