package routetrace

import (
	"context"
	"net/http"
	"sync"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/failover"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/waiting"
)

// peek is what a check finds that charges nothing.
type peek struct {
	gate.Decision // of the check alone

	check   *limiter.Check // the one check of the decision
	blocked bool           // it is refused without a decision
	err     error          // why the store does not decide

	look  *adminapi.ExplainedLook // where the request only looks
	turn  *adminapi.ExplainedTurn // where requests wait
	waits bool                    // the request would wait
}

// peekAll peeks at the quotas of all checks at once, so that a Redis that does not answer is waited for
// once. A peek only reads; a probe finds out before whether Redis would decide all checks that are
// decided together.
func (e *explanation) peekAll(r *http.Request, l *gate.Limiter, evaluation *rule.Evaluation) (peeks []peek) {
	ctx := r.Context()
	var enforced gate.Decision
	l.Begin(&enforced, evaluation)
	for _, d := range append([]gate.Decision{enforced}, gate.DryRuns(evaluation)...) {
		for _, check := range d.Checks {
			p := peek{Decision: gate.Decision{Checks: []limiter.Check{check}, Mode: d.Mode, DryRun: d.DryRun}}
			p.check = &p.Checks[0]
			if by, blocked := gate.Blocked(p.check); blocked {
				p.blocked = true
				p.Conclude(by, nil)
			}
			peeks = append(peeks, p)
		}
	}
	var asking sync.WaitGroup
	var err, dryErr error
	asking.Go(func() { err = l.Stores.Probe(ctx, openChecks(peeks, false)) })
	asking.Go(func() { dryErr = l.Stores.Probe(ctx, openChecks(peeks, true)) })
	asking.Wait()
	for i := range peeks {
		p := &peeks[i]
		if p.blocked {
			continue
		}
		if p.err = err; p.DryRun {
			p.err = dryErr
		}
		asking.Go(func() { p.run(ctx, l.Stores.Store, e.charged) })
	}
	asking.Wait()
	for i := range peeks {
		peeks[i].explainTurn(r, l, evaluation)
	}
	return peeks
}

// openChecks returns the checks that are not blocked, of dry runs or of those that are enforced.
func openChecks(peeks []peek, dryRun bool) (checks []limiter.Check) {
	for i := range peeks {
		if p := &peeks[i]; p.DryRun == dryRun && !p.blocked {
			checks = append(checks, *p.check)
		}
	}
	return checks
}

// run fills in the result and concludes the decision, for a quota that earlier limiters have taken from meanwhile. A store that
// does not decide is not asked.
func (p *peek) run(ctx context.Context, store *failover.Store, charged []limiter.Check) {
	if p.check.Look {
		p.look = &adminapi.ExplainedLook{Charged: !rule.OnlyLooks(p.check), InFlight: store.LookingAt(p.check), Most: p.check.InFlight}
	}
	check, taken := *p.check, int64(0)
	for i := range charged {
		if charged[i].SameQuota(&check) {
			taken = rule.AddWeights(taken, limiter.Taken(&charged[i]))
		}
	}
	check.Weight = rule.AddWeights(check.Weight, taken)
	var source limiter.Source
	if p.err != nil {
		source = store.PeekLocal(&check)
	} else {
		source, p.err = store.Peek(ctx, &check)
	}
	p.check.Result = check.Result
	p.check.Result.Remaining = max(0, check.Result.Remaining-taken)
	if p.undecided() {
		p.Conclude(source, limiter.ErrUndecided)
	} else {
		p.Conclude(source, nil)
	}
}

// undecided reports whether the fail mode decides.
func (p *peek) undecided() bool { return p.err != nil && p.Mode != limiter.FailLocal }

// Waiting reports what waits.
func Waiting(w waiting.Waits) *adminapi.WaitingReport {
	return &adminapi.WaitingReport{Requests: w.Count, Oldest: Seconds(w.Oldest)}
}

// explainTurn finds out whether the request would wait: where others wait before it, or the key has too few free units,
// unless as many wait as may.
func (p *peek) explainTurn(r *http.Request, l *gate.Limiter, evaluation *rule.Evaluation) {
	policyRule := l.Rules.RuleOf(p.check)
	if policyRule.Wait.Longest == 0 || p.DryRun {
		return
	}
	repl, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	request := waiting.Request{
		Policy: p.check.Policy, Key: p.check.Key, Weight: limiter.Units(p.check),
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
	isFull := p.Outcome == limiter.OutcomeDenied || p.Outcome == limiter.OutcomeAllowed && queued.Count > 0
	if isFull && !p.blocked && !p.undecided() && !limiter.NeverPasses(p.check) {
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
		return string(limiter.OutcomeDenied)
	}
	return string(p.Outcome)
}

// goesOn reports whether the request would go on, perhaps after a wait.
func (p *peek) goesOn() bool {
	return p.waits || p.decision() == string(p.Outcome) && p.Outcome.GoesOn()
}
