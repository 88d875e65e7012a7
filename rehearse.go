package redisratelimit

import (
	"errors"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/replay"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/replay/accesslog"
)

// Play implements [replay.Engine]. Where several servers may have got the request it goes through the
// first where it meets a policy.
func (r *rehearsal) Play(e *accesslog.Entry) *replay.Verdict {
	r.now, r.entry = e.Time, e
	v, host := &r.verdict, e.Host
	if host == "" {
		host = r.host
	}
	for _, s := range r.stagesOf(e, host) {
		v.Outcome, v.Decisions = replay.Unlimited, v.Decisions[:0]
		request := s.request(e, host)
		if request == nil {
			v.Outcome = replay.Unplayable
			return v
		}
		r.walk = walk{request: request, meet: r.walk.meet, groups: r.walk.groups[:0]}
		if _, err := r.walk.run(s.routes); err != nil && v.Outcome == replay.Unlimited {
			v.Outcome = replay.Unplayable
		}
		if v.Outcome != replay.Unlimited {
			break
		}
	}
	r.gaps.see(e, v, &r.asked)
	return v
}

// meeting is a request at a handler.
type meeting struct {
	handler *Handler
	request *http.Request
	repl    *caddy.Replacer
}

// meet has a handler decide a request, as it would have with the response that the log tells of.
func (r *rehearsal) meet(h *Handler, request *http.Request) (goesOn bool, err error) {
	v := &r.verdict
	if h.isExempt(request) {
		v.Outcome = replay.Exempt
		return true, nil
	}
	repl, _ := request.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	m := &meeting{handler: h, request: request, repl: repl}
	var space [2]limiter.Check
	checks, dry := space[:0], []limiter.Check(nil)
	for i := range h.rules {
		rule := &h.rules[i]
		check, met, err := h.checkOf(rule, request, repl)
		switch {
		case errors.Is(err, errEmptyKey):
			r.note(rule.policy, replay.Decision{EmptyKey: true, LeftOut: true})
			v.Outcome = replay.Rejected
			return false, nil
		case err != nil:
			return false, err
		case met == ruleLeftOut:
			r.note(rule.policy, replay.Decision{EmptyKey: true, LeftOut: true})
		case met == ruleNotMatched:
		case rule.dryRun:
			dry = addCheck(dry, check)
		default:
			checks = addCheck(checks, check)
		}
	}
	for i := range dry {
		r.decide(m, dry[i:i+1], true)
	}
	switch {
	case len(checks) > 0:
		if !r.decide(m, checks, false) {
			v.Outcome = replay.Denied
			return false, nil
		}
		v.Outcome = replay.Allowed
	case len(dry) > 0 && v.Outcome == replay.Unlimited:
		v.Outcome = replay.Allowed
	}
	return true, nil
}

// decide has the store decide checks and tells whether the request passes.
func (r *rehearsal) decide(m *meeting, checks []limiter.Check, dry bool) (passes bool) {
	_, _ = r.guard.Decide(m.request.Context(), checks, limiter.FailLocal) // the in-process store never fails
	passes = limiter.Allowed(checks)
	for i := range checks {
		c := &checks[i]
		rule := m.handler.ruleOf(c.Policy)
		header := r.responseHeader(rule)
		d := replay.Decision{
			Key: c.Key, Weight: c.Weight, Denied: !c.Result.Passes(), RetryAfter: c.Result.RetryAfter,
			EmptyKey: strings.HasPrefix(c.Key, addressMark), DryRun: dry, TriedKey: r.triedKey(m),
			Returned: r.returns(rule, c, header),
		}
		if rule.key.isRedacted(m.request, m.repl) {
			r.gaps.redactedKeys[r.indices[c.Policy.Name()]]++
		}
		if passes && d.Returned {
			r.guard.GiveBack([]limiter.Check{*c}, limiter.SourceMemory)
		}
		if passes {
			r.charge(m, rule, c, header)
		}
		r.note(c.Policy, d)
	}
	return passes
}

// triedKey is the request's key of those that limits are suggested for.
func (r *rehearsal) triedKey(m *meeting) string {
	if r.tried == nil {
		return ""
	}
	if r.tried.isRedacted(m.request, m.repl) {
		r.gaps.triedRedacted++
	}
	key := r.tried.of(m.request, m.repl)
	if key == "" {
		r.gaps.triedEmpty++
		key = r.tried.ofAddress(m.request)
	}
	return key
}

// note adds what a policy decided.
func (r *rehearsal) note(p *limiter.Policy, d replay.Decision) {
	d.Policy = r.indices[p.Name()]
	r.verdict.Decisions = append(r.verdict.Decisions, d)
}
