package redisratelimit

import (
	"errors"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/quotaheader"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

var errDenied = errors.New("rate limit exceeded")

// deny answers a denied call of gRPC in gRPC's form, and any other denied request by Caddy's error routes,
// or, where there are none, with what Caddy would answer without them. For a returned error Caddy first describes the whole request for its error log,
// even if that is off: a quarter of a flood's throughput.
func (h *Handler) deny(w http.ResponseWriter, p *responseWriter, checks []limiter.Check, decided time.Time) error {
	denier := &checks[limiter.Binding(checks)]
	if c := h.logger.Check(zap.DebugLevel, "request denied"); c != nil {
		c.Write(h.describe(denier)...)
	}
	h.events.denied(denier, p.decision.source, h.LogKeys)
	wait := quotaheader.SetRefusal(w.Header(), denier.Result.RetryAfter, time.Duration(h.RetryJitter))
	p.judge(h.Status, w.Header())
	p.decision.quotas.Deny(decided, wait)
	p.decision.quotas.SetHeaders(w.Header())
	if contentType := h.grpcType(p.request); contentType != "" {
		refuseCall(w, p.request, h.Status, contentType, p.decision.deniedCall(denier, wait))
		return nil
	}
	if h.ProblemDetails {
		return p.decision.problem(h.Status, checks).Write(w)
	}
	if h.onlyServerHandlesErrors && !hasErrorRoutes(p.request) {
		w.WriteHeader(h.Status)
		return nil
	}
	return fail(w, p.request, rule.Refuse(h.Status, errDenied))
}

// problem is the problem of a denial, by its reason.
func (d *decision) problem(status int, checks []limiter.Check) quotaheader.Problem {
	if d.reason() == rule.ReasonBan {
		return quotaheader.AbnormalUsage(status, checks)
	}
	return quotaheader.QuotaExceeded(status, checks)
}

// fail ends a request with an error, which Caddy's error routes answer. If the limit stands in these
// routes they cannot: Caddy would answer with the status of the error that they run for.
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

// describe returns the log fields of a denial.
func (h *Handler) describe(c *limiter.Check) []zap.Field {
	fields := []zap.Field{zap.String("policy", c.Policy.Name()), zap.Duration("retry_after", c.Result.RetryAfter)}
	if h.LogKeys {
		fields = append(fields, zap.Stringer("key", c.Key))
	}
	return fields
}

// hasErrorRoutes reports whether the server of a request has routes for errors, or may have some: named
// routes are invoked by subroutes that may have their own.
func hasErrorRoutes(r *http.Request) bool {
	server, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	return !ok || server == nil || len(server.NamedRoutes) > 0 || (server.Errors != nil && len(server.Errors.Routes) > 0)
}

// onlyServerHandlesErrors reports whether a returned error reaches the server unhandled: around the handler
// there are only subroutes without error routes of their own. Callers of named routes are not visible.
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
