package redisratelimit

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// reservation is a charge that stays only if the response is one that counts. The unit is taken
// before the handlers run, so that a thousand log-in attempts at once cannot all slip through a
// count that is made afterwards.
type reservation struct {
	check  limiter.Check
	guard  *limiter.Failover
	source limiter.Source
	rule   *rule
}

// reserve notes the charges of a decision that depend on the response.
func (h *Handler) reserve(p *responseWriter, checks []limiter.Check, source limiter.Source) {
	for i := range checks {
		if checks[i].Reserve && checks[i].Result.Passes() {
			p.reserved = append(p.reserved, reservation{check: checks[i], guard: h.app.guard, source: source, rule: h.ruleOf(checks[i].Policy)})
		}
	}
}

// ruleOf is the rule that a check was made by, with its policy or a variant of it.
func (h *Handler) ruleOf(p *limiter.Policy) *rule {
	for i := range h.rules[:min(len(h.rules), fewRules)] {
		if h.rules[i].policy.ID() == p.ID() {
			return &h.rules[i]
		}
	}
	if i, found := h.places[p.ID()]; found {
		return &h.rules[i]
	}
	return nil
}

// settle decides, by the response that goes out, which reserved charges stay. All do where the
// client has gone: it must not get them back by leaving.
func (p *responseWriter) settle(status int, header http.Header) {
	reserved := p.reserved
	p.reserved = nil
	if len(reserved) == 0 || p.request.Context().Err() != nil {
		return
	}
	for i := range reserved {
		r := &reserved[i]
		if r.rule.countIf.Match(status, header) {
			continue
		}
		r.guard.Refund([]limiter.Check{r.check}, r.source)
		if !r.rule.dryRun {
			p.decision.restore(&r.check)
		}
	}
	p.decision.bind()
}

// settleUnanswered decides which reserved charges stay where the handlers end without a response.
// What the client could bring about stays: leaving, or breaking what is behind the handlers. A refusal by
// this module is no such break, whatever its status.
func (p *responseWriter) settleUnanswered(err error, header http.Header) {
	if len(p.reserved) == 0 {
		return
	}
	status := http.StatusOK // what net/http makes of it
	if err != nil {
		status = http.StatusInternalServerError
		if coded := (caddyhttp.HandlerError{}); errors.As(err, &coded) && coded.StatusCode != 0 {
			status = coded.StatusCode
		}
	}
	if status >= statusClientGone && !errors.As(err, new(refusal)) {
		p.reserved = nil
	}
	p.settle(status, header)
}

// checkRepeated refuses a policy that stands several times in a handler, where one of them depends on
// the response: they would be charged as one.
func (h *Handler) checkRepeated() error {
	times, depends := map[string]int{}, map[string]string{}
	for _, p := range h.Policies {
		times[p.Name]++
		switch {
		case p.CountIf != nil:
			depends[p.Name] = "count_if"
		case p.ChargeFrom != "":
			depends[p.Name] = "charge"
		}
		if option := depends[p.Name]; option != "" && times[p.Name] > 1 {
			return fmt.Errorf("policy %q: stands several times in this handler, and one has %s; write one block, or give them different names", p.Name, option)
		}
	}
	return nil
}
