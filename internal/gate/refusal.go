package gate

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/quotaheader"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// This file is the third step: what is answered, if the handlers behind this one do not answer?

var (
	errDenied      = errors.New("rate limit exceeded")
	errUnavailable = errors.New("rate limit store unavailable")
	errCrowded     = errors.New("too many requests are held for rate limits")
)

// MaxHeld is how many requests this process holds at a time. Each keeps a connection and some memory;
// more than that are refused.
const MaxHeld = 65536

// PassExempt lets a request through that no policy counts, because it is exempt by the option or by an override.
func (x *Exchange) PassExempt(repl *caddy.Replacer, e *rule.Evaluation, next caddyhttp.Handler) error {
	d := x.decisionFor(repl)
	d.outcome, d.source = rule.Exempt, ""
	if e.Exempted {
		d.source = rule.SourceOverride
	}
	d.log(x.request)
	return x.Next(next)
}

// Deny answers a request that was denied.
func (x *Exchange) Deny(verdict *Verdict) error {
	l, d := x.limiter, x.decision
	denier := &verdict.Checks[limiter.Binding(verdict.Checks)]
	if c := l.Logger.Check(zap.DebugLevel, "request denied"); c != nil {
		c.Write(l.describe(denier, d.source, d.reason())...)
	}
	l.Events.Denied(denier, d.source)
	wait := x.setRetryAfter(l.Status, denier.Result.RetryAfter)
	d.quotas.Deny(verdict.at, wait)
	if x.callType() == "" && l.MayWait(&verdict.CheckGroup, verdict.pass) && isNavigation(x.request) {
		return x.showPage(verdict)
	}
	d.quotas.SetHeaders(x.Header(), x.request.Header)
	return x.refuse(&refusal{cause: denied, status: l.Status, reason: errDenied, wait: wait.True, checks: verdict.Checks})
}

// setRetryAfter says in the header of a refusal when to come back, and judges it as a response.
func (x *Exchange) setRetryAfter(status int, after time.Duration) (wait quotaheader.Wait) {
	wait = quotaheader.SetRefusal(x.Header(), after, x.limiter.RetryJitter)
	x.settleByStatus(status, x.Header())
	x.decision.refused = true
	return wait
}

// Delay holds an allowed request for as long as its queues want. Too many held requests, and a client that
// leaves meanwhile, are errors. Go notices over HTTP/1.1 only behind the body that a client has left. Nothing of a body
// is read ahead for that: a read answers Expect: 100-continue, the bodies of all who wait would lie in memory, and
// no read from a slow client can be taken back.
func (x *Exchange) Delay(verdict *Verdict) error {
	delay := LongestDelay(verdict.Checks)
	if delay == 0 || verdict.Outcome != rule.Allowed {
		return nil
	}
	held := &x.limiter.Process.Held
	defer held.Add(-1)
	if held.Add(1) > MaxHeld {
		return x.abortDelay(rule.Refuse(http.StatusServiceUnavailable, errCrowded))
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-x.request.Context().Done():
		return x.abortDelay(rule.Refuse(statusClientGone, x.request.Context().Err()))
	}
}

// abortDelay ends the wait of an allowed request by an error.
func (x *Exchange) abortDelay(err error) error {
	x.settleByError(err)
	x.decision.quotas.SetHeaders(x.Header(), x.request.Header)
	return err
}

// RefuseUndecided answers a request that nothing was decided about: its client left or its time was up, or the store
// failed and the fail mode is closed.
func (x *Exchange) RefuseUndecided(err error) error {
	if !errors.Is(err, limiter.ErrUndecided) {
		status := statusClientGone
		if errors.Is(err, context.DeadlineExceeded) {
			status = http.StatusGatewayTimeout
		}
		err = rule.Refuse(status, err)
		x.settleByError(err)
		return x.Refuse(err)
	}
	_, probe := x.stores.Failing()
	wait := x.setRetryAfter(http.StatusServiceUnavailable, probe)
	x.decision.quotas.SetHeaders(x.Header(), x.request.Header)
	return x.refuse(&refusal{cause: unavailable, status: http.StatusServiceUnavailable, reason: errUnavailable, wait: wait.True})
}

// Refuse ends a request that this handler does not decide. Errors of others, such as a matcher's, go to
// the error routes, also for gRPC: Caddy's log has them from there.
func (x *Exchange) Refuse(err error) error {
	coded := caddyhttp.HandlerError{}
	if !rule.IsRefusal(err) || !errors.As(err, &coded) {
		return x.fail(err)
	}
	if c := x.limiter.Logger.Check(zap.DebugLevel, "request refused"); c != nil {
		c.Write(zap.Int("status", coded.StatusCode), zap.Error(coded.Err))
	}
	if d := x.knownDecision(); d != nil {
		d.refused = true
	}
	return x.refuse(&refusal{status: coded.StatusCode, reason: errors.Unwrap(coded.Err)})
}

// fail ends a request with an error, which Caddy's error routes answer. If the limit stands in these
// routes they cannot: Caddy would answer with the status of the error that they run for.
func (x *Exchange) fail(err error) error {
	failure := caddyhttp.HandlerError{}
	if !x.isInErrorRoutes() || !errors.As(err, &failure) {
		return err
	}
	x.ResponseWriter.WriteHeader(failure.StatusCode)
	return nil
}

// This file is the form in which a request is refused.

// cause is what refuses a request.
type cause int

// The causes.
const (
	undecidable cause = iota // the request or its connection, as the status says
	denied                   // a policy
	unavailable              // the store, which does not decide
)

// refusal is why a request is refused.
type refusal struct {
	cause  cause
	status int
	reason error           // for error routes and logs
	wait   time.Duration   // until the request may be repeated: 0 is unknown, [limiter.Never] never
	checks []limiter.Check // of a denial
}

// form is how a refusal is written.
type form int

// The forms.
const (
	formError   form = iota // none: Caddy's error routes answer
	formCall                // gRPC's own
	formProblem             // problem details
	formText                // a line of text
)

// formOf returns the form that a refusal of the request gets. What error routes can answer is left to them, but for
// early data: browsers send such a request again if the answer has its status, which an error route may replace.
func (x *Exchange) formOf(r *refusal) form {
	l := x.limiter
	_, hasText := r.text()
	switch {
	case x.callType() != "":
		return formCall
	case l.ProblemDetails && r.hasProblem():
		return formProblem
	case !hasText:
		return formError
	case r.isEarly(), x.isInErrorRoutes():
		return formText
	case !l.OnlyServerHandlesErrors || l.ErrorRoutes.CanHandle(x.request, r.status):
		return formError
	}
	return formText
}

// refuse answers a request with a refusal in its form. An error is returned only to error routes that can answer: Caddy
// first describes the whole request for its error log, even if that is off, which is a quarter of a flood's throughput.
func (x *Exchange) refuse(r *refusal) error {
	switch x.formOf(r) {
	case formCall:
		x.refuseCall(r)
		return nil
	case formProblem:
		return x.problemOf(r).Write(x.ResponseWriter)
	case formText:
		text, _ := r.text()
		text.Write(x.ResponseWriter, isHead(x.request))
		return nil
	}
	return x.fail(rule.Refuse(r.status, r.reason))
}

// isEarly reports whether the request came in early data.
func (r *refusal) isEarly() bool { return r.cause == undecidable && r.status == http.StatusTooEarly }

// hasProblem reports whether the refusal has a form in problem details.
func (r *refusal) hasProblem() bool { return r.cause != undecidable }

// text returns the refusal as text, and reports whether it has that form.
func (r *refusal) text() (text quotaheader.Text, found bool) {
	switch r.cause {
	case denied:
		return quotaheader.DeniedText(r.status, r.wait), true
	case unavailable:
		return quotaheader.UndecidedText(r.wait), true
	}
	return quotaheader.TextRefusedBy(r.status)
}

// problemOf returns a refusal in problem details.
func (x *Exchange) problemOf(r *refusal) quotaheader.Problem {
	if r.cause == denied {
		return x.decision.problem(r.status, r.checks)
	}
	return quotaheader.ReducedCapacity(r.status)
}

// callOf returns a refusal in gRPC's form.
func (x *Exchange) callOf(r *refusal) quotaheader.RefusedCall {
	switch r.cause {
	case denied:
		return x.decision.deniedCall(&r.checks[limiter.Binding(r.checks)], r.wait)
	case unavailable:
		return quotaheader.UndecidedCall(r.wait)
	}
	return quotaheader.CallRefusedBy(r.status)
}

// callType returns the content type of a refusal in gRPC's form; empty where a request gets another.
func (x *Exchange) callType() string {
	if !x.limiter.GRPC {
		return ""
	}
	contentType := quotaheader.GRPCType(x.request.Header)
	if contentType != "" && x.limiter.Usage.Matches(x.request) {
		return "" // which no call asks
	}
	return contentType
}

// refuseCall answers in gRPC's form, in place of a status of HTTP.
func (x *Exchange) refuseCall(r *refusal) {
	if d := x.knownDecision(); d != nil {
		d.callStatus = uint16(r.status)
	}
	x.callOf(r).Write(x.ResponseWriter, x.request.Header, x.callType())
}

// isInErrorRoutes reports whether the limit stands in error routes, which run for another error.
func (x *Exchange) isInErrorRoutes() bool {
	return x.request.Context().Value(caddyhttp.ErrorCtxKey) != nil
}
