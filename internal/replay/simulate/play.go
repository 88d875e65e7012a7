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
func (s *Simulation) Play(e *accesslog.Entry) *replay.Verdict {
	s.endUntil(e.Time)
	s.now, s.entry = e.Time, e
	s.missing.begin(e)
	v, host := &s.verdict, e.Host
	if host == "" {
		host = s.host
	}
	client := e.Client
	for _, server := range s.serversOf(e, host) {
		e.Client = client
		v.Outcome, v.Decisions = replay.Unlimited, v.Decisions[:0]
		request := server.request(e, host)
		if request == nil {
			v.Outcome = replay.Unplayable
			return v
		}
		s.taken, s.begun, s.held, s.refused, s.answered = s.taken[:0], s.begun[:0], 0, 0, false
		_, err := s.tracer.Run(server.plan, request)
		s.settle()
		s.run()
		if err != nil && v.Outcome == replay.Unlimited {
			v.Outcome = replay.Unplayable
		}
		if v.Outcome != replay.Unlimited {
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
func (s *Simulation) onLimiter(l *gate.Limiter, request *http.Request) (goesOn bool, err error) {
	verdict := &s.verdict
	repl, _ := request.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	v := &visit{limiter: l, request: request, repl: repl}
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
		verdict.Outcome = replay.Exempt
		return true, nil
	case rule.IsRefusal(err): // of an empty key, or a parameter of the query in place of the body's value
		verdict.Outcome, s.refused = replay.Rejected, http.StatusBadRequest
		return false, nil
	case err != nil:
		return false, err
	case action == gate.Limited && verdict.Outcome == replay.Unlimited:
		verdict.Outcome = replay.Allowed
	}
	for _, dry := range gate.DryRuns(&evaluation) {
		s.decide(v, dry)
	}
	if len(evaluation.Enforced) == 0 {
		return true, nil
	}
	if !s.decide(v, l.Enforced(&evaluation)) {
		verdict.Outcome, s.refused = replay.Denied, l.Status
		return false, nil
	}
	verdict.Outcome = replay.Allowed
	return true, nil
}

// noteFinding counts a policy that goes by the request's body, and adds one that a request is left out of because its key
// is empty. A request that an earlier policy refuses does not come to it.
func (s *Simulation) noteFinding(f rule.Finding) {
	if f.Refused {
		return
	}
	if f.AsksForBody() {
		s.missing.addBody(s.indices[f.Rule.Policy.Name()])
	}
	if f.Status == rule.Skipped || errors.Is(f.Err, rule.ErrEmptyKey) {
		s.note(f.Rule.Policy, replay.Decision{EmptyKey: true, LeftOut: true, DryRun: f.DryRun})
	}
}

// decide decides a question, unless it is decided already, and reports whether the request passes.
func (s *Simulation) decide(v *visit, q gate.CheckGroup) (passes bool) {
	if q.Source == "" {
		q.Source, _ = s.store.Decide(v.request.Context(), q.Checks) // the in-process store never fails
	}
	passes = limiter.Allowed(q.Checks)
	if passes {
		s.begin(&q)
	}
	for i := range q.Checks {
		c := &q.Checks[i]
		r := v.limiter.Rules.RuleOf(c)
		response := s.response(v, r)
		weight, looked, returned := c.Weight, rule.OnlyLooks(c), !r.Counts(&response)
		switch {
		case looked:
			weight, returned = 0, false
		case c.Look:
			returned = !r.CountsLook(&response)
		}
		d := replay.Decision{
			Key: c.Key.String(), Weight: weight, Reserve: c.Reserve, Denied: !c.Result.Passes(), RetryAfter: c.Result.RetryAfter,
			EmptyKey: rule.IsAddressKey(c.Key), DryRun: q.DryRun,
			Returned: returned, Taken: passes, Looks: c.Look && !looked, Looked: looked,
		}
		if r.Key.Contains(v.request, v.repl, accesslog.Redacted) {
			s.missing.redactedKeys[s.indices[c.Policy.Name()]]++
		}
		if r.Wait.Longest > 0 && !q.DryRun && d.Denied && !limiter.NeverPasses(c) {
			s.missing.waits[s.indices[c.Policy.Name()]]++
		}
		if passed, waits := v.limiter.Pending(&q, i); passes && waits {
			s.taken = append(s.taken, taken{visit: *v, passed: passed, response: response, decision: len(s.verdict.Decisions)})
		}
		s.note(c.Policy, d)
	}
	return passes
}

// note adds what a policy decided.
func (s *Simulation) note(p *limiter.Policy, d replay.Decision) {
	d.Policy = s.indices[p.Name()]
	s.verdict.Decisions = append(s.verdict.Decisions, d)
}
