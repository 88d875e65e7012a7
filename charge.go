package redisratelimit

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// chargeResponseBytes is the value of charge that stands for the length of the response's body.
const chargeResponseBytes = "response_bytes"

// deferredCharge is what an allowed request will owe once its response tells how much that is. Whoever waits
// for the response, or breaks it off, pays; later requests do if there is not enough left.
type deferredCharge struct {
	check   limiter.Check
	handler *Handler
	rule    *rule
	source  limiter.Source
}

// deferCharge notes what the checks of an allowed request will owe.
func (h *Handler) deferCharge(p *responseWriter, checks []limiter.Check, source limiter.Source) {
	if !h.charges {
		return
	}
	for i := range checks {
		rule := h.ruleOf(checks[i].Policy)
		if rule.charge.from != "" && checks[i].Result.Passes() {
			p.deferred = append(p.deferred, deferredCharge{check: checks[i], handler: h, rule: rule, source: source})
		}
	}
}

// applyCharges charges what the request owes, unless a handler further in denied it: a denied request pays
// nowhere.
func (p *responseWriter) applyCharges() {
	if p.decision.outcome == outcomeDenied || p.decision.outcome == outcomeFailedClosed {
		return
	}
	repl, _ := p.request.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	responseBytes := p.bytes
	if isHead(p.request) {
		responseBytes = 0
	}
	for i := range p.deferred {
		debt := &p.deferred[i]
		debt.check.Weight = debt.amount(repl, responseBytes)
		debt.handler.app.guard.Charge([]limiter.Check{debt.check}, debt.source)
	}
}

// isHead tells whether the client asked for the header alone. No body is sent to it then, though
// handlers may write one.
func isHead(r *http.Request) bool {
	original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request)
	return ok && original.Method == http.MethodHead
}

// amount is how many units are owed. Nobody earns units by naming a number below zero.
func (d *deferredCharge) amount(repl *caddy.Replacer, responseBytes int64) int64 {
	if d.rule.charge.from == chargeResponseBytes {
		return responseBytes
	}
	n, ok := d.handler.number(d.rule, "charge", d.rule.charge.from, repl)
	switch {
	case !ok:
		return d.rule.charge.fallback
	case n < 0 || n > limiter.MaxCharge:
		d.handler.warnInvalid(d.rule, "charge", fmt.Errorf("{%s} is below 0 or above 2^52", d.rule.charge.from))
		return d.rule.charge.fallback
	}
	return n
}

// charge says where the number of units comes from that a rule charges after the response; the zero
// value is nowhere.
type charge struct {
	from     string // response_bytes, or the name of a placeholder
	fallback int64  // of a placeholder
}

// parseCharge reads what a policy charges after the response.
func (p *Policy) parseCharge() (charge, error) {
	switch {
	case p.Charge < 0 || p.Charge > limiter.MaxCharge:
		return charge{}, fmt.Errorf("charge %d: use a whole number from 0 to 2^52", p.Charge)
	case p.ChargeFrom == "" && p.Charge != 0:
		return charge{}, fmt.Errorf("charge %d: say in charge_from what is charged; to charge a number known beforehand use weight", p.Charge)
	case p.ChargeFrom == "" || p.ChargeFrom == chargeResponseBytes && p.Charge == 0:
		return charge{from: p.ChargeFrom}, nil
	}
	if strings.Trim(p.ChargeFrom, "{}") == chargeResponseBytes {
		return charge{}, fmt.Errorf("charge %s %d: %s is always known and takes no fallback; write it without braces and number", p.ChargeFrom, p.Charge, chargeResponseBytes)
	}
	name, err := parseSource("charge", p.ChargeFrom)
	return charge{from: name, fallback: p.Charge}, err
}
