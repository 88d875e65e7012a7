package routetrace

import (
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
)

// Proxies returns what the reverse_proxy handlers of a server may do with requests. The server must be provisioned.
// Those inside of handlers of other authors are not visible.
func (t *Trees) Proxies(server *caddyhttp.Server) (all gate.Proxies) {
	eachHandler(t.of(server).lists, func(h *handler, _ place) bool {
		if proxy, ok := h.module.(*reverseproxy.Handler); ok {
			all.Repeat = all.Repeat || mayRepeat(proxy)
			all.Pass = all.Pass || h.ResponseRoutes
			all.Retry = all.Retry || mayRetry(proxy)
			all.Answer = all.Answer || slices.ContainsFunc(h.lists, mayAnswer)
		}
		all.Foreign = all.Foreign || isForeign(h.module)
		return true
	})
	return all
}

// mayRetry reports whether a reverse_proxy may ask several times for a request.
func mayRetry(proxy *reverseproxy.Handler) bool {
	balancing := proxy.LoadBalancing
	return balancing != nil && (balancing.Retries != 0 || balancing.TryDuration != 0)
}

// mayAnswer reports whether the routes for some responses may answer the request, and do not only note something on its way.
func mayAnswer(responses list) bool {
	for i := range responses.routes {
		for j := range responses.routes[i].handlers {
			if kind := responses.routes[i].handlers[j].kind; kind != PassesThrough && kind != Mutates {
				return true
			}
		}
	}
	return false
}

// mayRepeat reports whether a reverse_proxy may send a request again after it had a connection, whatever the method
// of the request: by lb_retry_match, or because it sends another method.
func mayRepeat(proxy *reverseproxy.Handler) bool {
	balancing := proxy.LoadBalancing
	if !mayRetry(proxy) {
		return false
	}
	return balancing.RetryMatch != nil || proxy.Rewrite != nil && proxy.Rewrite.Method != ""
}
