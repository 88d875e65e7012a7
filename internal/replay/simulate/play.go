package simulate

import (
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// Play implements [replay.Engine]. An entry whose peer is a trusted proxy gets the client that the configuration reads from
// its header. Where several servers may have got the request it goes through the
// first where it meets a policy.
func (s *Simulation) Play(e *accesslog.Entry) *replay.Decision {
	s.endUntil(e.Time)
	s.now, s.entry = e.Time, e
	s.missing.begin(e)
	v, host := &s.decision, e.Host
	if host == "" {
		host = s.host
	}
	client := e.Client
	for _, server := range s.serversOf(e, host) {
		e.Client = client
		v.Outcome, v.Policies = limiter.OutcomeUnlimited, v.Policies[:0]
		request := server.request(e, host)
		if request == nil {
			v.Outcome = limiter.OutcomeUnplayable
			return v
		}
		s.taken, s.begun, s.held, s.refused, s.answered = s.taken[:0], s.begun[:0], 0, 0, false
		s.probe.begin(request, server.mayAnswer)
		_, err := s.tracer.Run(server.tree, request)
		s.settle()
		s.run()
		if err != nil && v.Outcome == limiter.OutcomeUnlimited {
			v.Outcome = limiter.OutcomeUnplayable
		}
		if v.Outcome != limiter.OutcomeUnlimited {
			break
		}
	}
	s.missing.add(e, v, &s.inputs)
	return v
}

// visit is a request at a limiter.
type visit struct {
	limiter *gate.Limiter
	request *http.Request
	repl    *caddy.Replacer
}

// onLimiter has a limiter decide a request, as it would have with the response in the log.
func (s *Simulation) onLimiter(limiting routetrace.Limiting, request *http.Request) (goesOn bool, err error) {
	l := s.limiters[limiting]
	if l == nil {
		return true, nil
	}
	decision := &s.decision
	repl, _ := request.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	v := &visit{limiter: l, request: request, repl: repl}
	s.visiting = v
	evaluation := rule.Evaluation{Enforced: s.checks[:0], OnFinding: s.onFinding}
	if l.Rules.ReadsBody() { // of which a log has none
		body := l.BeginBody(new(routetrace.DiscardWriter), request, repl)
		defer body.GiveBack()
		defer body.End()
		evaluation.Body = body
	}
	if l.Crawlers != nil {
		identity := l.Crawlers.IdentifyOffline(request, repl)
		evaluation.Crawler = identity.Crawler()
		s.missing.addClaim(identity)
	}
	switch action, err := l.Evaluate(request, repl, &evaluation); {
	case action == gate.AsksUsage || action == gate.ReturnsFromChallenge:
		s.answered = true
		return false, nil
	case action == gate.Exempt:
		decision.Outcome = limiter.OutcomeExempt
		return true, nil
	case rule.IsRefusal(err): // of an empty key, or a parameter of the query in place of the body's value
		decision.Outcome, s.refused = limiter.OutcomeRejected, http.StatusBadRequest
		return false, nil
	case err != nil:
		return false, err
	case action == gate.Limited && decision.Outcome == limiter.OutcomeUnlimited:
		decision.Outcome = limiter.OutcomeAllowed
	}
	for _, dry := range gate.DryRuns(&evaluation) {
		s.decide(v, dry)
	}
	if len(evaluation.Enforced) == 0 {
		return true, nil
	}
	var enforced gate.Decision
	l.Begin(&enforced, &evaluation)
	if !s.decide(v, enforced) {
		decision.Outcome, s.refused = limiter.OutcomeDenied, l.Status
		return false, nil
	}
	decision.Outcome = limiter.OutcomeAllowed
	return true, nil
}

// noteFinding counts a policy that goes by the request's body, and adds one that a request is left out of because its key
// is empty. A request that an earlier policy refuses does not come to it.
func (s *Simulation) noteFinding(f rule.Finding) {
	if c := s.policies[s.indices[f.Rule.Policy.Name()]].Changes; c != nil {
		addChanges(c, &f, s.unread, s.visiting.request, s.visiting.repl)
		s.unread = unreadable{}
	}
	if f.Refused {
		return
	}
	if f.AsksForBody() {
		s.missing.addBody(s.indices[f.Rule.Policy.Name()])
	}
	if f.Status == rule.Skipped || errors.Is(f.Err, rule.ErrEmptyKey) {
		s.note(f.Rule.Policy, replay.PolicyDecision{EmptyKey: true, LeftOut: true, DryRun: f.DryRun})
	}
}

// decide concludes a decision, unless that is concluded already, and reports whether the request passes.
func (s *Simulation) decide(v *visit, made gate.Decision) (passes bool) {
	if made.Outcome == "" {
		made.Conclude(s.store.Decide(v.request.Context(), made.Checks)) // the in-process store never fails
	}
	passes = made.Outcome == limiter.OutcomeAllowed
	if passes {
		s.begin(&made)
	}
	s.probe.note(&made)
	for i := range made.Checks {
		c := &made.Checks[i]
		r := v.limiter.Rules.RuleOf(c)
		response := s.response(v, r)
		weight, looked, returned := c.Weight, rule.OnlyLooks(c), !r.Counts(&response)
		switch {
		case looked:
			weight, returned = 0, false
		case c.Look:
			returned = !r.CountsLook(&response)
		}
		d := replay.PolicyDecision{
			Key: c.Key.String(), Weight: weight, Reserve: c.Reserve, Denied: !c.Result.Passes(), RetryAfter: c.Result.RetryAfter,
			EmptyKey: rule.IsAddressKey(c.Key), DryRun: made.DryRun,
			Returned: returned, Taken: passes, Looks: c.Look && !looked, Looked: looked,
		}
		if r.Key.Contains(v.request, v.repl, accesslog.Redacted) {
			s.missing.redactedKeys[s.indices[c.Policy.Name()]]++
		}
		if r.Wait.Longest > 0 && !made.DryRun && d.Denied && !limiter.NeverPasses(c) {
			s.missing.waits[s.indices[c.Policy.Name()]]++
		}
		if passed, waits := v.limiter.Pending(&made, i); passes && waits {
			s.taken = append(s.taken, taken{visit: *v, passed: passed, response: response, decision: len(s.decision.Policies)})
		}
		s.note(c.Policy, d)
	}
	return passes
}

// note adds what a policy decided.
func (s *Simulation) note(p *limiter.Policy, d replay.PolicyDecision) {
	d.Policy = s.indices[p.Name()]
	if c := s.policies[d.Policy].Changes; c != nil && d.Looks {
		c.LookFirst++
	}
	s.decision.Policies = append(s.decision.Policies, d)
}
