package routetrace

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/waiting"
)

// Waiting reports what waits.
func Waiting(w waiting.Waits) *adminapi.WaitingReport {
	return &adminapi.WaitingReport{Requests: w.Count, Oldest: Seconds(w.Oldest)}
}

// explainTurn finds out whether the request would wait: where others wait before it, or the key has too few free units,
// unless as many wait as may.
func (p *peek) explainTurn(r *http.Request, l *gate.Limiter, evaluation *rule.Evaluation) {
	policyRule := l.Rules.RuleOf(&p.check)
	if policyRule.Wait.Longest == 0 || p.dryRun {
		return
	}
	repl, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	request := waiting.Request{
		Policy: p.check.Policy, Key: p.check.Key, Weight: limiter.Units(&p.check),
		Longest: policyRule.Wait.Longest, Most: policyRule.Wait.Most,
	}
	queued := l.Stores.Queue.OfKey(p.check.Policy, p.check.Key)
	p.turn = &adminapi.ExplainedTurn{
		WaitingReport: *Waiting(queued), Most: request.Most, Longest: Seconds(request.Longest),
	}
	if value, byValue := l.Rules.TurnOf(policyRule, r, repl, evaluation.Body); byValue {
		request.Order = waiting.ByValue(rule.TurnHash(value))
		p.turn.Value = new(display.EscapeKey(value.String()))
	}
	isFull := p.outcome() == rule.Denied || p.outcome() == rule.Allowed && queued.Count > 0
	if isFull && !p.blocked && !p.undecided() && !limiter.NeverPasses(&p.check) {
		p.waits = l.Stores.Queue.Admits(request)
		p.turn.Full = !p.waits
	}
}

// decision returns what would become of the request by the check.
func (p *peek) decision() string {
	switch {
	case p.waits:
		return decisionWaits
	case p.turn != nil && p.turn.Full:
		return string(rule.Denied)
	}
	return string(p.outcome())
}

// goesOn reports whether the request would go on, perhaps after a wait.
func (p *peek) goesOn() bool {
	return p.waits || p.decision() == string(p.outcome()) && p.outcome().GoesOn()
}
