package redisratelimit

import (
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// deny answers a denied request: by Caddy's error routes, or, where nobody has any, with what Caddy
// would answer without them. Returning an error has Caddy describe the whole request for its error
// log first, even if that is off: a quarter of a flood's throughput.
func (h *Handler) deny(w http.ResponseWriter, p *responseWriter, checks []limiter.Check) error {
	denier := &checks[limiter.Binding(checks)]
	if c := h.logger.Check(zap.DebugLevel, "request denied"); c != nil {
		c.Write(h.describe(denier)...)
	}
	h.events.denied(denier, p.decision.source, h.LogKeys)
	h.refuse(w.Header(), denier.Result.RetryAfter)
	p.settle(h.Status, w.Header())
	p.decision.setHeaders(w.Header())
	if h.ProblemDetails {
		return quotaExceeded(h.Status, violated(checks)).write(w)
	}
	if h.onlyServerHandlesErrors && !hasErrorRoutes(p.request) {
		w.WriteHeader(h.Status)
		return nil
	}
	return fail(w, p.request, refused(h.Status, errDenied))
}

// refusal marks the errors by which this module refuses requests. Handlers further out judge one as the
// response that it becomes, because a refusal may also be written. Which of both it is depends on error
// routes, and they may be there for other statuses.
type refusal struct{ error }

// Unwrap returns the reason.
func (r refusal) Unwrap() error { return r.error }

// refused is the error of a request that this module refuses.
func refused(status int, reason error) caddyhttp.HandlerError {
	return caddyhttp.HandlerError{StatusCode: status, Err: refusal{reason}}
}

// fail ends a request with an error, which Caddy's error routes answer. Where these are what met the
// limit they cannot: Caddy would answer with the status of the error that they are run for.
func fail(w http.ResponseWriter, r *http.Request, err error) error {
	if r.Context().Value(caddyhttp.ErrorCtxKey) == nil {
		return err
	}
	failure := caddyhttp.HandlerError{}
	if !errors.As(err, &failure) {
		return err
	}
	w.WriteHeader(failure.StatusCode)
	return nil
}

// describe is what the log tells of a denial.
func (h *Handler) describe(c *limiter.Check) []zap.Field {
	fields := []zap.Field{zap.String("policy", c.Policy.Name()), zap.Duration("retry_after", c.Result.RetryAfter)}
	if h.LogKeys {
		fields = append(fields, zap.String("key", c.Key))
	}
	return fields
}

// hasErrorRoutes tells whether the server of a request has routes for errors, or may have some that
// its handlers do not know of: named routes are invoked by subroutes that may have their own.
func hasErrorRoutes(r *http.Request) bool {
	server, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	return !ok || server == nil || len(server.NamedRoutes) > 0 || (server.Errors != nil && len(server.Errors.Routes) > 0)
}

// onlyServerHandlesErrors tells whether an error that the module returns reaches nobody before the server:
// around it there are only subroutes without error routes of their own. Who invokes it as a named
// route it cannot tell.
func onlyServerHandlesErrors(ctx caddy.Context) bool {
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
