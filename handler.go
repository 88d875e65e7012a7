package redisratelimit

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/quotaheader"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/failover"
)

var (
	errUnavailable = errors.New("rate limit store unavailable")
	errCrowded     = errors.New("too many requests are held for rate limits")
)

// ServeHTTP lets the request through to the next handler or answers it with an error, by the
// handler's policies.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if isInclude(r) {
		return next.ServeHTTP(w, r)
	}
	repl, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	p := &responseWriter{request: r}
	if h.usage != nil && h.usage.path.Matches(r) {
		return h.serveUsage(w, r, repl, p)
	}
	evaluation := rule.Evaluation{Enforced: p.room(len(h.rules.Rules))}
	exempt := h.rules.IsExempt(r)
	if exempt {
		exempt = !h.rules.BlocksExempt(r, repl, &evaluation)
	} else if err := h.rules.Evaluate(r, repl, &evaluation); err != nil {
		return h.refuse(w, r, err)
	}
	if !evaluation.Concerns() {
		return h.pass(w, p, next, repl, exempt, evaluation.Exempted)
	}
	p.use(h)
	defer p.end()
	d := p.decisionFor(repl)
	dryRun := h.startDryRun(d, r, p.stores, &evaluation)
	checks := evaluation.Enforced
	if len(checks) == 0 {
		h.endDryRun(dryRun, p)
		d.log(r)
		return p.next(w, next)
	}
	source, decided, err := h.decide(d, r, p.stores, &evaluation)
	h.endDryRun(dryRun, p)
	h.keepRunning(p, checks)
	if err != nil {
		return h.onStoreError(w, p, next, checks, err)
	}
	d.add(checks, source, h.formats, decided)
	h.count(checks, d.outcome, source)
	h.countBans(checks, source, false)
	d.log(r)
	if d.outcome == rule.Denied {
		return h.deny(w, p, checks, decided)
	}
	h.follow(p, checks, source, false)
	if err := h.hold(r.Context(), checks); err != nil {
		p.judgeError(err, w.Header())
		d.quotas.SetHeaders(w.Header())
		return h.refuse(w, r, err)
	}
	return p.next(w, next)
}

// Caddy's templates give these to the requests that they make of themselves, for httpInclude.
const (
	includeAddr   = "127.0.0.1:10000"
	includeHeader = "Caddy-Templates-Include"
)

// isInclude reports whether a request is part of another one's page, and so none of a client. Those of
// clients have in their context what their server or connection is, whatever they claim.
func isInclude(r *http.Request) bool {
	if r.RemoteAddr != includeAddr || len(r.Header[includeHeader]) == 0 {
		return false
	}
	ctx := r.Context()
	return ctx.Value(http.ServerContextKey) == nil && ctx.Value(http.LocalAddrContextKey) == nil
}

// pass lets a request through that no policy counts. It is exempt by the option or by an override, or it
// meets none.
func (*Handler) pass(w http.ResponseWriter, p *responseWriter, next caddyhttp.Handler, repl *caddy.Replacer, byOption, byOverride bool) error {
	if !byOption && !byOverride {
		return next.ServeHTTP(w, p.request)
	}
	d := p.decisionFor(repl)
	d.outcome, d.source = rule.Exempt, ""
	if byOverride {
		d.source = rule.SourceOverride
	}
	d.log(p.request)
	return p.next(w, next)
}

// hold holds an allowed request for as long as its queues want. Too many held requests, and a client that
// leaves meanwhile, are errors.
func (h *Handler) hold(ctx context.Context, checks []limiter.Check) error {
	var delay time.Duration
	for i := range checks {
		delay = max(delay, checks[i].Result.Delay)
	}
	if delay == 0 {
		return nil
	}
	defer held.Add(-1)
	if held.Add(1) > maxHeld {
		return rule.Refuse(http.StatusServiceUnavailable, errCrowded)
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return rule.Refuse(statusClientGone, ctx.Err())
	}
}

// onStoreError does what the fail mode says with a request that was not decided.
func (h *Handler) onStoreError(w http.ResponseWriter, p *responseWriter, next caddyhttp.Handler, checks []limiter.Check, err error) error {
	r, d := p.request, p.decision
	if !errors.Is(err, limiter.ErrUndecided) {
		status := statusClientGone
		if errors.Is(err, context.DeadlineExceeded) {
			status = http.StatusGatewayTimeout
		}
		err = rule.Refuse(status, err)
		p.judgeError(err, w.Header())
		return h.refuse(w, r, err)
	}
	if h.FailMode == failover.FailOpen {
		d.fail(rule.FailedOpen)
		h.count(checks, d.outcome, d.source)
		d.log(r)
		return p.next(w, next)
	}
	d.fail(rule.FailedClosed)
	h.count(checks, d.outcome, d.source)
	d.log(r)
	_, probe := p.stores.Failing()
	wait := quotaheader.SetRefusal(w.Header(), probe, time.Duration(h.RetryJitter))
	p.judge(http.StatusServiceUnavailable, w.Header())
	d.quotas.SetHeaders(w.Header())
	if contentType := h.grpcType(r); contentType != "" {
		refuseCall(w, r, http.StatusServiceUnavailable, contentType, quotaheader.UndecidedCall(wait))
		return nil
	}
	if h.ProblemDetails {
		return quotaheader.ReducedCapacity(http.StatusServiceUnavailable).Write(w)
	}
	return fail(w, r, rule.Refuse(http.StatusServiceUnavailable, errUnavailable))
}
