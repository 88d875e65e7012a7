package redisratelimit

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
)

// deny answers a denied request: by Caddy's error routes, or, where nobody has any, with what Caddy
// would answer without them. Returning an error has Caddy describe the whole request for its error
// log first, even if that is off: a quarter of a flood's throughput.
func (h *Handler) deny(w http.ResponseWriter, r *http.Request, d *decision) error {
	if c := h.logger.Check(zap.DebugLevel, "request denied"); c != nil {
		c.Write(zap.String("policy", d.binding.Policy.Name()), zap.Duration("retry_after", d.binding.Result.RetryAfter))
	}
	d.setHeaders(w.Header())
	refuse(w.Header(), d.binding.Result.RetryAfter)
	if h.unheard && !hasErrorRoutes(r) {
		w.WriteHeader(h.Status)
		return nil
	}
	return caddyhttp.HandlerError{StatusCode: h.Status, Err: errDenied}
}

// hasErrorRoutes tells whether the server of a request has routes for errors.
func hasErrorRoutes(r *http.Request) bool {
	server, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	return !ok || server == nil || (server.Errors != nil && len(server.Errors.Routes) > 0)
}

// onlyServerHears tells whether an error that the module returns reaches nobody before the server:
// around it there are only subroutes without error routes of their own.
func onlyServerHears(ctx caddy.Context) bool {
	served := false
	for _, module := range ctx.Modules() {
		switch module := module.(type) {
		case *caddyhttp.App:
			served = true
		case *Handler:
		case *caddyhttp.Subroute:
			if module.Errors != nil {
				return false
			}
		default:
			return false
		}
	}
	return served
}
