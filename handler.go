package redisratelimit

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
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
	var decision gate.Decision
	exchange.Decide(&evaluation, &decision)
	switch decision.Outcome {
	case limiter.OutcomeDenied:
		return exchange.Deny(&decision)
	case limiter.OutcomeFailedClosed, limiter.OutcomeAbandoned:
		return exchange.AnswerWithoutDecision(decision.Err)
	}
	if decision.Delay > 0 {
		if err := exchange.Delay(decision.Delay); err != nil {
			return exchange.Refuse(err)
		}
	}
	return exchange.Next(next)
}
