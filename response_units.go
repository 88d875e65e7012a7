package redisratelimit

import (
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// This file settles the units of a request by its response. They are taken before the handlers run, because a
// thousand requests at once would all pass a count that is made afterwards. [rule.Set.CostOf] says what becomes of
// them: at the response's header where count_if decides alone, otherwise when the handlers have returned.

// passedCheck is a check that passed and that its response has to do with.
type passedCheck struct {
	check   limiter.Check
	handler *Handler
	stores  *storepool.Stores // that decided
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
		if r := h.rules.RuleOf(&checks[i]); checks[i].Result.Passes() && r.AwaitsResponse() {
			p.awaited.passed = append(p.awaited.passed, passedCheck{check: checks[i], handler: h, stores: p.stores, source: source, rule: r, dryRun: dryRun})
		}
	}
}

// judge settles the checks that are not to wait for the end of the response, by its status and header: those that
// count_if does not count, and those without a cost. All count if the client has left: it must not get units back
// by leaving. So they do without a status.
func (p *responseWriter) judge(status int, header http.Header) {
	a := p.awaited
	if !a.settles() {
		return
	}
	if p.clientGone() {
		status = 0
	}
	a.response.Status, a.response.Header = status, header
	waiting := a.passed[:0]
	for i := range a.passed {
		c := &a.passed[i]
		counts := c.rule.Counts(&a.response)
		if counts && c.rule.Cost.From != "" {
			waiting = append(waiting, *c)
			continue
		}
		c.settle(nil, &a.response)
		if !counts && !c.dryRun {
			p.decision.quotas.Refund(&c.check)
		}
	}
	a.passed, a.response.Status = waiting, 0
}

// judgeError does so if the handlers end without a response. All count if the client may be the cause: it left, or
// it broke what is behind the handlers.
func (p *responseWriter) judgeError(err error, header http.Header) {
	status, broken := outcomeOf(err)
	if broken {
		status = 0
	}
	p.judge(status, header)
}

// endUnanswered ends handlers that wrote no response. Without an error net/http writes an empty one. An error that
// tells what is wrong with the request costs what was taken.
func (p *responseWriter) endUnanswered(err error) {
	p.judgeError(err, p.Header())
	if a := p.awaited; a != nil {
		_, broken := outcomeOf(err)
		a.response.Begun, a.response.Refused = err == nil && !p.clientGone(), err != nil && !broken
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

// settle settles the checks that are left, by the response as it is.
func (p *responseWriter) settle() {
	a := p.awaited
	if !a.settles() {
		return
	}
	repl, _ := p.request.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	response := &a.response
	response.Request = p.request
	if response.Body != nil {
		response.Body.End()
		response.Complete = response.Complete || response.Body.Complete()
	}
	if isHead(p.request) {
		response.Bytes = 0
	}
	for i := range a.passed {
		c := &a.passed[i]
		c.handler.counters[c.rule.Index].CountSettled(c.settle(repl, response))
	}
	a.passed = nil
}

// settle makes what a check took what its request costs, emits the events of that, and returns the difference. The
// events of a take that is never refunded were emitted with it.
func (c *passedCheck) settle(repl *caddy.Replacer, response *rule.Response) (change int64) {
	h, taken := c.handler, c.check.Weight
	cost, _ := h.rules.CostOf(c.rule, repl, response, taken)
	c.stores.Settle(c.check, cost, c.source)
	switch {
	case !c.check.Refundable:
		h.notifyCost(c, cost-taken)
	case cost == taken:
		h.notifyTake(&c.check, c.rule, c.source, c.dryRun)
	default:
		h.notifyCost(c, cost)
	}
	return cost - taken
}

// startBody begins to read the body, if a cost is in it.
func (p *responseWriter) startBody() {
	for i := range p.awaited.passed {
		if passed := &p.awaited.passed[i]; passed.rule.Cost.ReadsBody() && !isHead(p.request) {
			p.awaited.response.Body = passed.handler.rules.NewBody(p.Header())
			return
		}
	}
}
