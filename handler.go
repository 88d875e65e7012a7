package redisratelimit

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/intercept"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// ServeHTTP lets the request through to the next handler or answers it with an error, by the handler's policies.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	exchange := h.limiter.NewExchange(w, r)
	defer exchange.End()
	var evaluation rule.Evaluation
	switch action, err := exchange.Evaluate(&evaluation); action {
	case gate.NotLimited:
		return next.ServeHTTP(w, r)
	case gate.ReturnsFromChallenge:
		once, request, err := exchange.RedeemToken()
		switch {
		case rule.IsRefusal(err):
			return exchange.Refuse(err)
		case request == nil:
			return err
		}
		return h.ServeHTTP(once, request, next)
	case gate.AsksUsage:
		return exchange.AnswerUsage(&evaluation)
	case gate.Refused:
		return exchange.Refuse(err)
	case gate.Exempt:
		return exchange.PassExempt(&evaluation, next)
	}
	verdict := exchange.Decide(&evaluation)
	switch verdict.Outcome {
	case rule.Denied:
		return exchange.Deny(&verdict)
	case rule.FailedClosed, gate.Undecided:
		return exchange.RefuseUndecided(verdict.Err)
	}
	if verdict.Delay > 0 {
		if err := exchange.Delay(verdict.Delay); err != nil {
			return exchange.Refuse(err)
		}
	}
	return exchange.Next(next)
}

// onlyServerHandlesErrors reports whether a returned error reaches the server unhandled: around the handler
// there are only subroutes without error routes of their own, and Caddy's handlers that return the errors of their
// handle_response. What others do with errors is not known. Callers of named routes are not visible.
func onlyServerHandlesErrors(ctx caddy.Context) bool {
	served := false
	for _, module := range ctx.Modules() {
		switch module := module.(type) {
		case *caddyhttp.App:
			served = true
		case *Handler, *reverseproxy.Handler, *intercept.Intercept:
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
