package simulate

import (
	"net/http"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// statusClientGone is the status in a log of a client that left before its answer.
const statusClientGone = 499

// responseHeader returns the response's header in the log, nil where a rule does not read it.
func (s *Simulation) responseHeader(r *rule.Rule) http.Header {
	if !r.ReadsResponseHeader() {
		return nil
	}
	header := s.entry.ResponseHeader()
	s.missing.responseAsked, s.missing.responseKnown = true, len(header) > 0
	return header
}

// refunds reports whether the response in the log has the units of a check refunded. Errors of the server
// count.
func (s *Simulation) refunds(r *rule.Rule, c *limiter.Check, header http.Header) bool {
	status := s.entry.Status
	return r.CountIf != nil && c.Refundable && status != 0 && status != statusClientGone && status < http.StatusInternalServerError &&
		!r.CountIf.Match(status, header)
}

// taken is a check that passed and that depends on the response.
type taken struct {
	visit
	rule     *rule.Rule
	check    limiter.Check
	header   http.Header // of the response in the log
	refunded bool        // by that response
	decision int         // its index in the verdict
}

// settle refunds units and charges for the response, once it is known whether the request passes all
// policies. If one refuses it, the refusal is the response, and nothing is charged for it.
func (s *Simulation) settle() {
	for i := range s.taken {
		t := &s.taken[i]
		refunded := t.refunded
		if s.refused != 0 {
			refunded = t.rule.CountIf != nil && !t.rule.CountIf.Match(s.refused, http.Header{})
		}
		switch {
		case refunded:
			s.decisionOf(t).Refunded = t.check.Weight
			s.store.Refund([]limiter.Check{t.check}, limiter.SourceMemory)
		case s.refused == 0 && t.rule.Settle.From != "":
			s.settleCost(t)
		case t.check.Refundable:
			s.store.Confirm([]limiter.Check{t.check}, limiter.SourceMemory)
		}
		if s.refused == 0 && t.rule.Charge.From != "" {
			t.check.Weight = s.costOf(t, &t.rule.Charge, 0)
			s.decisionOf(t).Charged = t.check.Weight
			s.store.Charge([]limiter.Check{t.check}, limiter.SourceMemory)
		}
	}
}

// costOf returns a cost of the response in the log, at least so many units if it broke off. The log has no bodies,
// and does not tell errors from responses: the client left or the server failed where the status says so.
func (s *Simulation) costOf(t *taken, cost *rule.Cost, least int64) int64 {
	failed := s.entry.Status >= statusClientGone
	response := rule.Response{Request: t.request, Begun: !failed || s.entry.Size > 0, Complete: !failed, Bytes: s.entry.Size}
	if name, ok := cost.Header(); ok {
		t.repl.Set(cost.From, strings.Join(t.header[name], ","))
		response.Begun = response.Begun || len(t.header[name]) > 0
	}
	if s.entry.Method == http.MethodHead {
		response.Bytes = 0
	}
	units, told := t.limiter.Rules.CostOf(t.rule, cost, t.repl, &response, least)
	if !told {
		s.missing.costs[s.indices[t.check.Policy.Name()]]++
	}
	return units
}

// decisionOf returns the decision of a check in the verdict.
func (s *Simulation) decisionOf(t *taken) *replay.Decision { return &s.verdict.Decisions[t.decision] }

// settleCost makes what a check took what the response in the log costs.
func (s *Simulation) settleCost(t *taken) {
	cost := s.costOf(t, &t.rule.Settle, t.check.Weight)
	d := s.decisionOf(t)
	d.Charged, d.Refunded = max(0, cost-t.check.Weight), max(0, t.check.Weight-cost)
	s.store.SettleCost(t.check, cost, limiter.SourceMemory)
}
