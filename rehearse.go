package redisratelimit

import (
	"errors"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// Play implements [replay.Engine]. Where several servers may have got the request it goes through the
// first where it meets a policy.
func (r *simulation) Play(e *accesslog.Entry) *replay.Verdict {
	r.now, r.entry = e.Time, e
	v, host := &r.verdict, e.Host
	if host == "" {
		host = r.host
	}
	for _, s := range r.serversOf(e, host) {
		v.Outcome, v.Decisions = replay.Unlimited, v.Decisions[:0]
		request := s.request(e, host)
		if request == nil {
			v.Outcome = replay.Unplayable
			return v
		}
		r.walk = routeTracer{request: request, onLimiter: r.walk.onLimiter, groups: r.walk.groups[:0]}
		r.taken, r.refused = r.taken[:0], 0
		_, err := r.walk.run(s.routes)
		r.settle()
		if err != nil && v.Outcome == replay.Unlimited {
			v.Outcome = replay.Unplayable
		}
		if v.Outcome != replay.Unlimited {
			break
		}
	}
	r.missing.see(e, v, &r.inputs)
	return v
}

// visit is a request at a handler.
type visit struct {
	handler *Handler
	request *http.Request
	repl    *caddy.Replacer
}

// onLimiter has a handler decide a request, as it would have with the response that the log tells of.
func (r *simulation) onLimiter(h *Handler, request *http.Request) (goesOn bool, err error) {
	v := &r.verdict
	if h.isExempt(request) {
		v.Outcome = replay.Exempt
		return true, nil
	}
	repl, _ := request.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	m := &visit{handler: h, request: request, repl: repl}
	var space [2]limiter.Check
	before := v.Outcome
	checks, dry, err := r.checks(m, space[:0])
	switch {
	case errors.Is(err, errEmptyKey):
		v.Outcome, r.refused = replay.Rejected, http.StatusBadRequest
		return false, nil
	case err != nil:
		v.Outcome = before
		return false, err
	}
	for i := range dry {
		r.decide(m, dry[i:i+1], true)
	}
	if len(checks) == 0 {
		return true, nil
	}
	if !r.decide(m, checks, false) {
		v.Outcome, r.refused = replay.Denied, h.Status
		return false, nil
	}
	v.Outcome = replay.Allowed
	return true, nil
}

// checks lists what the request takes from whom, as [Handler.checks] does, and notes the policies that it
// is left out of.
func (r *simulation) checks(m *visit, checks []limiter.Check) (enforced, dry []limiter.Check, err error) {
	for i := range m.handler.rules {
		rule := &m.handler.rules[i]
		check, met, err := m.handler.checkOf(rule, m.request, m.repl)
		if met == ruleSkipped {
			r.note(rule.policy, replay.Decision{EmptyKey: true, LeftOut: true, DryRun: rule.dryRun})
		}
		if rule.dryRun && (err != nil || met == ruleCounts) && r.verdict.Outcome == replay.Unlimited {
			r.verdict.Outcome = replay.Allowed // unless an enforced policy says something else
		}
		switch {
		case err != nil && !rule.dryRun:
			return nil, nil, err
		case err != nil || met != ruleCounts:
		case rule.dryRun:
			dry = addCheck(dry, check)
		default:
			checks = addCheck(checks, check)
		}
	}
	return checks, dry, nil
}

// decide has the store decide checks and tells whether the request passes.
func (r *simulation) decide(m *visit, checks []limiter.Check, dry bool) (passes bool) {
	_, _ = r.guard.Decide(m.request.Context(), checks, limiter.FailLocal) // the in-process store never fails
	passes = limiter.Allowed(checks)
	for i := range checks {
		c := &checks[i]
		rule := m.handler.ruleOf(c.Policy)
		header := r.responseHeader(rule)
		d := replay.Decision{
			Key: c.Key, Weight: c.Weight, Denied: !c.Result.Passes(), RetryAfter: c.Result.RetryAfter,
			EmptyKey: strings.HasPrefix(c.Key, addressMark), DryRun: dry, SuggestKey: r.triedKey(m),
			Returned: r.returns(rule, c, header),
		}
		if rule.key.isRedacted(m.request, m.repl) {
			r.missing.redactedKeys[r.indices[c.Policy.Name()]]++
		}
		if passes && (c.Reserve || rule.charge.from != "") {
			r.taken = append(r.taken, taken{visit: *m, rule: rule, check: *c, header: header, returned: d.Returned})
		}
		r.note(c.Policy, d)
	}
	return passes
}

// triedKey is the request's key of those that limits are suggested for.
func (r *simulation) triedKey(m *visit) string {
	if r.tried == nil {
		return ""
	}
	if r.tried.isRedacted(m.request, m.repl) {
		r.missing.triedRedacted++
	}
	key := r.tried.of(m.request, m.repl)
	if key == "" {
		r.missing.triedEmpty++
		key = r.tried.ofAddress(m.request)
	}
	return key
}

// note adds what a policy decided.
func (r *simulation) note(p *limiter.Policy, d replay.Decision) {
	d.Policy = r.indices[p.Name()]
	r.verdict.Decisions = append(r.verdict.Decisions, d)
}
