package redisratelimit

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// Decisions of an explanation besides those of requests.
const (
	explainedNone       = "none"
	explainedNotMatched = "not_matched"
	explainedSkipped    = "skipped"
	explainedRejected   = "rejected"
)

// explanation is what is found out about a request on its way.
type explanation struct {
	report  *adminapi.ExplainReport
	charged []limiter.Check // by the handlers that the request has passed
}

// explain tells what the handlers that a request meets would decide, and charges nothing.
func explain(servers map[string]*caddyhttp.Server, r *http.Request, clientIP string) (*adminapi.ExplainReport, error) {
	name, err := serverOf(servers, r)
	if err != nil {
		return nil, err
	}
	server := servers[name]
	e := &explanation{report: &adminapi.ExplainReport{Server: name, Decision: explainedNone, Policies: []adminapi.ExplainedPolicy{}}}
	walk := &routeTracer{request: prepare(r, server, clientIP), onLimiter: e.onLimiter}
	if _, err := walk.run(newRoutePlan(server.Routes, server.NamedRoutes).routes); err != nil {
		return nil, badInput("the request cannot be matched: %v", err)
	}
	e.report.Skipped = walk.skipped
	return e.report, nil
}

// onLimiter adds what a handler would decide, and tells whether the request would go on.
func (e *explanation) onLimiter(h *Handler, r *http.Request) (goesOn bool, err error) {
	repl, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if h.isExempt(r) {
		e.report.Decision = string(outcomeExempt)
		return true, nil
	}
	checks, dry, refusing, err := h.checks(nil, r, repl)
	rejected := errors.Is(err, errEmptyKey)
	if err != nil && !rejected {
		return false, err
	}
	looks := e.peek(r.Context(), h, checks, dry)
	for i := range h.rules {
		e.report.Policies = append(e.report.Policies, h.explainRule(&h.rules[i], r, repl, looks))
	}
	goesOn = !rejected && e.settle(looks)
	switch {
	case rejected:
		e.report.Decision = explainedRejected
	case !goesOn:
		e.report.Decision = string(outcomeDenied)
	case len(checks) > 0 || e.report.Decision == explainedNone && len(dry)+len(refusing) > 0:
		e.report.Decision = string(outcomeAllowed)
	}
	return goesOn, nil
}

// settle notes what a handler would have charged and why Redis could not be asked, and tells whether
// the request would go on.
func (e *explanation) settle(looks []peek) (goesOn bool) {
	goesOn = true
	for i := range looks {
		l := &looks[i]
		if l.err != nil {
			e.report.Error = unavailableText(l.err)
		}
		goesOn = goesOn && (l.dryRun || l.passes())
	}
	for i := range looks {
		if l := &looks[i]; (l.dryRun && l.passes()) || (!l.dryRun && goesOn) {
			e.charged = append(e.charged, l.check)
		}
	}
	return goesOn
}

// explainRule tells what one rule would decide, by the look that it is part of.
func (h *Handler) explainRule(rule *rule, r *http.Request, repl *caddy.Replacer, looks []peek) adminapi.ExplainedPolicy {
	explained := adminapi.ExplainedPolicy{Policy: rule.policy.Name(), DryRun: rule.dryRun}
	key, met, err := h.keyOf(rule, r, repl)
	switch {
	case err != nil:
		explained.Decision = explainedRejected
		return explained
	case met == ruleNotMatched:
		explained.Decision = explainedNotMatched
		return explained
	case met == ruleSkipped:
		explained.Decision = explainedSkipped
		return explained
	}
	explained.Key, explained.Decision = adminapi.KeyText(key), explainedSkipped // where another rule refuses the request
	for i := range looks {
		l := &looks[i]
		if l.dryRun != rule.dryRun || !sameShare(&l.check, &limiter.Check{Policy: rule.policy, Key: key}) {
			continue
		}
		explained.Decision, explained.Weight = string(l.decision()), l.check.Weight
		if !l.undecided() {
			explained.Source, explained.QuotaReport = string(l.source), quotaReport(l.check.Policy, l.check.Result)
		}
	}
	return explained
}

// unavailableText says why Redis could not be asked.
func unavailableText(err error) string {
	return strings.TrimPrefix(err.Error(), limiter.ErrUndecided.Error()+": ")
}

// quotaReport is what a look has found.
func quotaReport(p *limiter.Policy, found limiter.Result) adminapi.QuotaReport {
	report := adminapi.QuotaReport{
		Limit: p.Capacity(), Remaining: found.Remaining,
		RetryAfter: secondsOf(found.RetryAfter), ResetAfter: secondsOf(found.ResetAfter),
	}
	if found.RetryAfter == limiter.Never {
		report.RetryAfter = -1
	}
	return report
}

// secondsOf is a duration in seconds, to the microsecond.
func secondsOf(d time.Duration) float64 { return float64(d.Microseconds()) / 1e6 }
