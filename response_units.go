package redisratelimit

import (
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/quotaheader"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// This file does what a response has to do with the units of its request. They are taken before the
// handlers run, because a thousand requests at once would all pass a count that is made afterwards:
//
//   - count_if refunds a take that does not count, at the response's header (reserved);
//   - charge adds to a take, after the response (deferred);
//   - settle takes the weight for an estimate of the cost, and corrects it after the response (deferred).

// passedCheck is a check that passed and that its response has to do with.
type passedCheck struct {
	check   limiter.Check
	handler *Handler
	stores  *openStores // that decided
	source  limiter.Source
	rule    *rule.Rule
	dryRun  bool
}

// follow does what follows from takes that passed: refunds and costs by the response, and events.
func (h *Handler) follow(p *responseWriter, checks []limiter.Check, source limiter.Source, dryRun bool) {
	if h.settles {
		h.awaitResponse(p, checks, source, dryRun)
	}
	h.notifyTakes(checks, source, dryRun)
}

// awaitResponse keeps the checks that depend on the response.
func (h *Handler) awaitResponse(p *responseWriter, checks []limiter.Check, source limiter.Source, dryRun bool) {
	for i := range checks {
		if !checks[i].Result.Passes() {
			continue
		}
		r := h.rules.RuleOf(&checks[i])
		passed := passedCheck{check: checks[i], handler: h, stores: p.stores, source: source, rule: r, dryRun: dryRun}
		if r.CountIf != nil {
			p.awaited.reserved = append(p.awaited.reserved, passed)
		}
		if r.Charge.From != "" || r.CountIf == nil && r.Settle.From != "" {
			p.awaited.deferred = append(p.awaited.deferred, passed)
		}
	}
}

// keep has the units of a reservation stay. Those of an estimate stay until the cost is known.
func (a *awaited) keep(r *passedCheck) {
	if r.rule.Settle.From != "" {
		a.deferred = append(a.deferred, *r)
		return
	}
	r.stay()
}

// stay has the units of a reservation stay for good.
func (c *passedCheck) stay() {
	c.stores.Confirm([]limiter.Check{c.check}, c.source)
	c.handler.notifyTake(&c.check, c.rule, c.source, c.dryRun)
}

// refund returns the units of a reservation.
func (c *passedCheck) refund(quotas *quotaheader.Quotas) {
	c.stores.Refund([]limiter.Check{c.check}, c.source)
	if !c.dryRun {
		quotas.Refund(&c.check)
	}
}

// settle refunds the reservations that the response does not count. All stay where the client has gone:
// it must not get them back by leaving.
func (p *responseWriter) settle(status int, header http.Header) {
	if p.awaited == nil || len(p.awaited.reserved) == 0 {
		return
	}
	if p.clientGone() {
		p.keepReserved()
		return
	}
	reserved := p.awaited.reserved
	p.awaited.reserved = nil
	for i := range reserved {
		if r := &reserved[i]; r.rule.CountIf.Match(status, header) {
			p.awaited.keep(r)
		} else {
			r.refund(&p.decision.quotas)
		}
	}
}

// keepReserved keeps all reservations.
func (p *responseWriter) keepReserved() {
	a := p.awaited
	if a == nil {
		return
	}
	for i := range a.reserved {
		a.keep(&a.reserved[i])
	}
	a.reserved = nil
}

// settleUnanswered settles the reservations where the handlers end without a response. They stay if the
// client may be the cause: it left, or it broke what is behind the handlers.
func (p *responseWriter) settleUnanswered(err error, header http.Header) {
	if p.awaited == nil || len(p.awaited.reserved) == 0 {
		return
	}
	status, broken := outcomeOf(err)
	if broken {
		p.keepReserved()
	}
	p.settle(status, header)
}

// endUnanswered ends handlers that wrote no response. Without an error net/http writes an empty one. An error that
// tells what is wrong with the request costs what was taken.
func (p *responseWriter) endUnanswered(err error) {
	p.settleUnanswered(err, p.Header())
	if p.awaited == nil {
		return
	}
	p.awaited.response.Begun = err == nil && !p.clientGone()
	if _, broken := outcomeOf(err); err != nil && !broken {
		p.awaited.stayEstimates()
	}
}

// outcomeOf returns the status that becomes of an error of the handlers, and whether the client left or what
// is behind the handlers broke. A refusal by this module is no such break, whatever its status.
func outcomeOf(err error) (status int, broken bool) {
	if err == nil {
		return http.StatusOK, false // what net/http makes of no response
	}
	status = http.StatusInternalServerError
	if coded := (caddyhttp.HandlerError{}); errors.As(err, &coded) && coded.StatusCode != 0 {
		status = coded.StatusCode
	}
	return status, status >= statusClientGone && !rule.IsRefusal(err)
}

// stayEstimates has the estimates stay whose cost no response has told: the request was refused, by another
// handler or by this one, where the estimate is of a dry run.
func (a *awaited) stayEstimates() {
	for i := range a.deferred {
		if passed := &a.deferred[i]; passed.rule.Settle.From != "" {
			passed.stay()
		}
	}
	a.deferred = nil
}

// applyCosts charges and settles by the response, unless a handler further in denied the request: a denied
// request is charged nowhere, and its estimate stays, as a weight does.
func (p *responseWriter) applyCosts() {
	if p.decision.outcome == rule.Denied || p.decision.outcome == rule.FailedClosed {
		return
	}
	repl, _ := p.request.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	a := p.awaited
	response := &a.response
	response.Request = p.request
	if response.Body != nil {
		response.Body.End()
		response.Complete = response.Complete || response.Body.Complete()
	}
	if isHead(p.request) {
		response.Bytes = 0
	}
	deferred := a.deferred
	a.deferred = nil
	for i := range deferred {
		if c := &deferred[i]; c.rule.Settle.From != "" {
			c.settle(repl, response)
		} else {
			c.charge(repl, response)
		}
	}
}

// charge charges what the response costs. A client that breaks the response off pays too, at least the
// fallback; later requests pay if there is not enough left.
func (c *passedCheck) charge(repl *caddy.Replacer, response *rule.Response) {
	check := c.check
	check.Weight, _ = c.handler.rules.CostOf(c.rule, &c.rule.Charge, repl, response, 0)
	c.stores.Charge([]limiter.Check{check}, c.source)
	c.handler.notifyCost(c, check.Weight)
}

// settle makes what was taken what the response costs. Where the response broke off before it told its cost, at
// least the estimate stays: a client must not get it back by leaving.
func (c *passedCheck) settle(repl *caddy.Replacer, response *rule.Response) {
	cost, _ := c.handler.rules.CostOf(c.rule, &c.rule.Settle, repl, response, c.check.Weight)
	c.stores.SettleCost(c.check, cost, c.source)
	c.handler.counters[c.rule.Index].CountSettled(cost - c.check.Weight)
	c.handler.notifyCost(c, cost)
}

// startBody begins to read the body, if a cost is in it.
func (p *responseWriter) startBody() {
	for i := range p.awaited.deferred {
		if passed := &p.awaited.deferred[i]; passed.rule.ReadsBody() && !isHead(p.request) {
			p.awaited.response.Body = passed.handler.rules.NewBody(p.Header())
			return
		}
	}
}
