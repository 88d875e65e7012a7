package redisratelimit

import (
	"context"
	"errors"
	"math"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

var (
	errDenied      = errors.New("rate limit exceeded")
	errUnavailable = errors.New("rate limit store unavailable")
	errCrowded     = errors.New("too many requests are held for rate limits")
	errEmptyKey    = errors.New("a placeholder of the rate limit key is empty")
)

// statusClientGone is what servers log for a client that left before its answer.
const statusClientGone = 499

// ServeHTTP lets the request through to the next handler or answers it with an error, by the
// handler's policies.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	repl, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	p := &responseWriter{request: r}
	if h.isExempt(r) {
		d := p.decisionFor(repl)
		d.outcome, d.source = outcomeExempt, ""
		d.log(r)
		return p.next(w, next)
	}
	checks, dry, refusing, err := h.checks(p.checks[:0], r, repl)
	if err != nil {
		return fail(w, r, err)
	}
	if len(checks)+len(dry)+len(refusing) == 0 {
		return next.ServeHTTP(w, r)
	}
	if h.settles && h.app.guard.Retain() {
		p.retained = h.app.guard
		defer p.release()
	}
	d := p.decisionFor(repl)
	dryRun := h.start(d, r, dry, refusing)
	if len(checks) == 0 {
		h.end(dryRun, p)
		d.log(r)
		return p.next(w, next)
	}
	source, err := h.decide(d, r, checks)
	h.end(dryRun, p)
	if err != nil {
		return h.onStoreError(w, p, next, checks, err)
	}
	d.add(checks, source, h.formats)
	h.count(checks, d.outcome, source)
	d.log(r)
	if d.outcome == outcomeDenied {
		return h.deny(w, p, checks)
	}
	h.reserve(p, checks, source)
	h.deferCharge(p, checks, source)
	if err := h.wait(r, checks); err != nil {
		p.settleUnanswered(err, w.Header())
		d.setHeaders(w.Header())
		return fail(w, r, err)
	}
	return p.next(w, next)
}

// decide has the checks that are enforced decided.
func (h *Handler) decide(d *decision, r *http.Request, checks []limiter.Check) (limiter.Source, error) {
	start := time.Now()
	source, err := h.decideOrFallback(r, checks, h.FailMode, d.timedOut)
	switch {
	case source == limiter.SourceMemory:
		memorySeconds.Observe(time.Since(start).Seconds())
	case err != nil || source == limiter.SourceFallback:
		d.timedOut = d.timedOut || h.timedOutSince(start)
	}
	return source, err
}

// decideOrFallback asks who decides. A request that has waited for Redis in vain does not wait again, so that the
// waits of several handlers do not add up.
func (h *Handler) decideOrFallback(r *http.Request, checks []limiter.Check, mode limiter.FailMode, waited bool) (limiter.Source, error) {
	if waited {
		return h.app.guard.Fallback(r.Context(), checks, mode, limiter.ErrAlreadyTimedOut)
	}
	return h.app.guard.Decide(r.Context(), checks, mode)
}

// timedOutSince tells whether who got no answer since then has waited for one, and was not told at once
// that there would be none.
func (h *Handler) timedOutSince(start time.Time) bool {
	return time.Since(start) >= time.Duration(h.app.Timeout)/2
}

// wait holds an allowed request until it is its turn.
func (h *Handler) wait(r *http.Request, checks []limiter.Check) error {
	fits, err := hold(r.Context(), longestDelay(checks))
	switch {
	case err != nil:
		return refused(statusClientGone, err)
	case !fits:
		return refused(http.StatusServiceUnavailable, errCrowded)
	}
	return nil
}

// checks lists what the request takes from whom. Policies that yield the same share twice take the
// sum of their weights from it at once. Those of dry-run policies are listed apart, and so are those of them
// that would refuse the request without a decision.
func (h *Handler) checks(checks []limiter.Check, r *http.Request, repl *caddy.Replacer) (enforced, dry []limiter.Check, refusing []dryRefusal, err error) {
	for i := range h.rules {
		rule := &h.rules[i]
		check, met, err := h.checkOf(rule, r, repl)
		switch {
		case err != nil && rule.dryRun:
			refusing = append(refusing, dryRefusal{rule, err})
		case err != nil:
			return nil, nil, nil, err
		case met != ruleCounts:
		case rule.dryRun:
			dry = rule.addTo(dry, check)
		default:
			checks = rule.addTo(checks, check)
		}
	}
	return checks, dry, refusing, nil
}

// checkOf is what a request takes by one rule. The error says that the request is refused, or would be
// if the rule were no dry run.
func (h *Handler) checkOf(rule *rule, r *http.Request, repl *caddy.Replacer) (check limiter.Check, met ruleStatus, err error) {
	key, met, err := h.keyOf(rule, r, repl)
	if err != nil || met != ruleCounts {
		return check, met, err
	}
	policy, weight := h.numbers(rule, repl)
	return limiter.Check{Policy: policy, Key: key, Weight: weight, Reserve: rule.countIf != nil}, met, nil
}

// ruleStatus is what a rule has to do with a request.
type ruleStatus int

const (
	ruleCounts     ruleStatus = iota
	ruleNotMatched            // the request is none of those that the policy counts
	ruleSkipped               // the key is empty, and on_empty_key is skip
)

// keyOf is whose share a rule takes from for a request. The error is that of checkOf.
func (h *Handler) keyOf(rule *rule, r *http.Request, repl *caddy.Replacer) (key string, met ruleStatus, err error) {
	applies, err := rule.applies(r)
	switch {
	case err != nil:
		return "", ruleNotMatched, err
	case !applies:
		return "", ruleNotMatched, nil
	}
	key = rule.key.of(r, repl)
	if !hasPeerAddress(r) {
		h.warnOfMissingAddress(rule, r, key == "")
	}
	if key != "" {
		return key, ruleCounts, nil
	}
	switch h.OnEmptyKey {
	case emptyKeySkip:
		return "", ruleSkipped, nil
	case emptyKeyReject:
		return "", ruleSkipped, refused(http.StatusBadRequest, errEmptyKey)
	}
	return rule.key.ofAddress(r), ruleCounts, nil
}

// addTo adds a check by the rule to those of the request.
func (rule *rule) addTo(checks []limiter.Check, check limiter.Check) []limiter.Check {
	if rule.repeats {
		return addCheck(checks, check)
	}
	return append(checks, check)
}

// addCheck adds a check, to an earlier one of the same share if there is one.
func addCheck(checks []limiter.Check, check limiter.Check) []limiter.Check {
	for i := range checks {
		if checks[i].Key == check.Key && checks[i].Policy.ID() == check.Policy.ID() {
			checks[i].Weight = addWeights(checks[i].Weight, check.Weight)
			return checks
		}
	}
	return append(checks, check)
}

// addWeights is the sum of two weights, or the largest that there is: clients may name any number.
func addWeights(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// count counts what was decided: for a denial only the policies that denied, for anything else all.
func (h *Handler) count(checks []limiter.Check, o outcome, s limiter.Source) {
	for i := range checks {
		if o == outcomeDenied && checks[i].Result.Passes() {
			continue
		}
		counters := h.ruleOf(checks[i].Policy).counters
		counters.count(o, s)
		if o == outcomeDenied {
			counters.top.denied(checks[i].Key)
		}
	}
}

// onStoreError does what the fail mode says with a request that nobody decided.
func (h *Handler) onStoreError(w http.ResponseWriter, p *responseWriter, next caddyhttp.Handler, checks []limiter.Check, err error) error {
	r, d := p.request, p.decision
	if !errors.Is(err, limiter.ErrUndecided) {
		status := statusClientGone
		if errors.Is(err, context.DeadlineExceeded) {
			status = http.StatusGatewayTimeout
		}
		err = refused(status, err)
		p.settleUnanswered(err, w.Header())
		return fail(w, r, err)
	}
	if h.FailMode == limiter.FailOpen {
		d.fail(outcomeFailedOpen)
		h.count(checks, d.outcome, d.source)
		d.log(r)
		return p.next(w, next)
	}
	d.fail(outcomeFailedClosed)
	h.count(checks, d.outcome, d.source)
	d.log(r)
	_, probe := h.app.guard.Failing()
	h.refuse(w.Header(), probe)
	p.settle(http.StatusServiceUnavailable, w.Header())
	d.setHeaders(w.Header())
	if h.ProblemDetails {
		return reducedCapacity(http.StatusServiceUnavailable).write(w)
	}
	return fail(w, r, refused(http.StatusServiceUnavailable, errUnavailable))
}
