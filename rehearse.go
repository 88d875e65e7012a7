package redisratelimit

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/replay"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/replay/accesslog"
)

// Play implements [replay.Engine]. The request goes through the first server where it meets a policy:
// logs do not tell the port.
func (r *rehearsal) Play(e *accesslog.Entry) *replay.Verdict {
	r.now = e.Time
	v := &r.verdict
	for i := range r.stages {
		v.Outcome, v.Decisions = replay.Unlimited, v.Decisions[:0]
		request := r.stages[i].request(e)
		if request == nil {
			v.Outcome = replay.Unplayable
			return v
		}
		walk := &walk{request: request}
		walk.meet = func(h *Handler, request *http.Request) (bool, error) { return r.meet(h, request, e) }
		if _, err := walk.run(r.stages[i].course.routes); err != nil && v.Outcome == replay.Unlimited {
			v.Outcome = replay.Unplayable
		}
		if v.Outcome != replay.Unlimited {
			break
		}
	}
	return v
}

// request makes the request of an entry; nil where no server would understand it.
func (s *stage) request(e *accesslog.Entry) *http.Request {
	target, err := url.ParseRequestURI(e.URI)
	if err != nil || e.Method == "" {
		return nil
	}
	r := s.prepared
	if r == nil {
		r = prepare(&http.Request{URL: target, Body: http.NoBody}, s.server, "")
		if s.repeatable {
			s.prepared = r
		}
	}
	s.fill(r, target, e)
	return r
}

// fill makes a prepared request that of an entry.
func (s *stage) fill(r *http.Request, target *url.URL, e *accesslog.Entry) {
	r.Method, r.URL, r.RequestURI, r.Host = e.Method, target, e.URI, e.Host
	r.Header, r.Proto, r.RemoteAddr = e.Header, e.Proto, hostPort(e.Remote, e.Client)
	if r.Header == nil {
		r.Header = http.Header{}
	}
	var ok bool
	if r.ProtoMajor, r.ProtoMinor, ok = http.ParseHTTPVersion(e.Proto); !ok {
		r.ProtoMajor, r.ProtoMinor = 1, 1
	}
	if s.tls {
		r.TLS = pretendedTLS(e.Host)
	}
	ctx := r.Context()
	if vars, ok := ctx.Value(caddyhttp.VarsCtxKey).(map[string]any); ok {
		clear(vars)
		vars[caddyhttp.ClientIPVarKey], vars[caddyhttp.TrustedProxyVarKey] = e.Client, false
	}
	if repl, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		repl.Set(userPlaceholder, e.User)
	}
}

// userPlaceholder is who was authenticated, which a log tells.
const userPlaceholder = "http.auth.user.id"

// hostPort is the address of a connection's peer, whose port the log does not tell.
func hostPort(remote, client string) string {
	if remote == "" {
		remote = client
	}
	if strings.Contains(remote, ":") {
		return "[" + remote + "]:0"
	}
	return remote + ":0"
}

// meet has a handler decide a request, as it would have with the response that the log tells of.
func (r *rehearsal) meet(h *Handler, request *http.Request, e *accesslog.Entry) (goesOn bool, err error) {
	v := &r.verdict
	if h.isExempt(request) {
		v.Outcome = replay.Exempt
		return true, nil
	}
	repl, _ := request.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	var space [2]limiter.Check
	checks, dry := space[:0], []limiter.Check(nil)
	for i := range h.rules {
		rule := &h.rules[i]
		if r.only != "" && rule.policy.Name() != r.only {
			continue
		}
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
		r.decide(h, dry[i:i+1], request, repl, e)
	}
	switch {
	case len(checks) > 0:
		if !r.decide(h, checks, request, repl, e) {
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
func (r *rehearsal) decide(h *Handler, checks []limiter.Check, request *http.Request, repl *caddy.Replacer, e *accesslog.Entry) (passes bool) {
	_, _ = r.guard.Decide(request.Context(), checks, limiter.FailLocal) // the in-process store never fails
	passes = limiter.Allowed(checks)
	for i := range checks {
		c := &checks[i]
		d := replay.Decision{
			Key: c.Key, Weight: c.Weight, Denied: !c.Result.Passes(), RetryAfter: c.Result.RetryAfter,
			EmptyKey: strings.HasPrefix(c.Key, addressMark),
		}
		if r.tried != nil {
			d.TriedKey = r.tried.of(request, repl)
		}
		r.note(c.Policy, d)
		if passes {
			r.respond(h, c, repl, e)
		}
	}
	return passes
}

// note adds what a policy decided.
func (r *rehearsal) note(p *limiter.Policy, d replay.Decision) {
	d.Policy = r.indices[p.Name()]
	r.verdict.Decisions = append(r.verdict.Decisions, d)
}

// respond does what depends on the response: units are given back or charged. Errors of the server, of
// which a log tells no more than the status, count.
func (r *rehearsal) respond(h *Handler, c *limiter.Check, repl *caddy.Replacer, e *accesslog.Entry) {
	rule := h.ruleOf(c.Policy)
	if c.Reserve && e.Status != 0 && e.Status != statusClientGone && e.Status < http.StatusInternalServerError &&
		!rule.countIf.Match(e.Status, http.Header{}) {
		r.guard.GiveBack([]limiter.Check{*c}, limiter.SourceMemory)
	}
	if rule.charge.from == "" {
		return
	}
	owed := debt{check: *c, handler: h, rule: rule, source: limiter.SourceMemory}
	owed.check.Weight = owed.amount(repl, e.Size)
	r.guard.Charge([]limiter.Check{owed.check}, limiter.SourceMemory)
}
