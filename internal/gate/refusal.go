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
func (v *Visit) PassExempt(repl *caddy.Replacer, e *rule.Evaluation, next caddyhttp.Handler) error {
	d := v.decisionFor(repl)
	d.outcome, d.source = rule.Exempt, ""
	if e.Exempted {
		d.source = rule.SourceOverride
	}
	d.log(v.request)
	return v.Next(next)
}

// Deny answers a request that was denied.
func (v *Visit) Deny(verdict *Verdict) error {
	l, d := v.limiter, v.decision
	denier := &verdict.Checks[limiter.Binding(verdict.Checks)]
	if c := l.Logger.Check(zap.DebugLevel, "request denied"); c != nil {
		c.Write(l.describe(denier, d.source, d.reason())...)
	}
	l.Events.Denied(denier, d.source)
	wait := v.turnAway(l.Status, denier.Result.RetryAfter)
	d.quotas.Deny(verdict.at, wait)
	if v.callType() == "" && l.MayWait(&verdict.Question, verdict.pass) && isNavigation(v.request) {
		return v.showPage(verdict)
	}
	d.quotas.SetHeaders(v.Header(), v.request.Header)
	return v.refuse(&refusal{cause: denied, status: l.Status, reason: errDenied, wait: wait.True, checks: verdict.Checks})
}

// turnAway says in the header of a refusal when to come back, and judges it as a response.
func (v *Visit) turnAway(status int, after time.Duration) (wait quotaheader.Wait) {
	wait = quotaheader.SetRefusal(v.Header(), after, v.limiter.RetryJitter)
	v.judge(status, v.Header())
	v.decision.refused = true
	return wait
}

// Hold holds an allowed request for as long as its queues want. Too many held requests, and a client that
// leaves meanwhile, are errors. Go notices over HTTP/1.1 only behind the body that a client has left. Nothing of a body
// is read ahead for that: a read answers Expect: 100-continue, the bodies of all who wait would lie in memory, and
// no read from a slow client can be taken back.
func (v *Visit) Hold(verdict *Verdict) error {
	delay := Delay(verdict.Checks)
	if delay == 0 || verdict.Outcome != rule.Allowed {
		return nil
	}
	held := &v.limiter.Process.Held
	defer held.Add(-1)
	if held.Add(1) > MaxHeld {
		return v.letGo(rule.Refuse(http.StatusServiceUnavailable, errCrowded))
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-v.request.Context().Done():
		return v.letGo(rule.Refuse(statusClientGone, v.request.Context().Err()))
	}
}

// letGo ends the wait of an allowed request by an error.
func (v *Visit) letGo(err error) error {
	v.judgeError(err)
	v.decision.quotas.SetHeaders(v.Header(), v.request.Header)
	return err
}

// Undecided answers a request that nothing was decided about: its client left or its time was up, or the store
// failed and the fail mode is closed.
func (v *Visit) Undecided(err error) error {
	if !errors.Is(err, limiter.ErrUndecided) {
		status := statusClientGone
		if errors.Is(err, context.DeadlineExceeded) {
			status = http.StatusGatewayTimeout
		}
		err = rule.Refuse(status, err)
		v.judgeError(err)
		return v.Refuse(err)
	}
	_, probe := v.stores.Failing()
	wait := v.turnAway(http.StatusServiceUnavailable, probe)
	v.decision.quotas.SetHeaders(v.Header(), v.request.Header)
	return v.refuse(&refusal{cause: unavailable, status: http.StatusServiceUnavailable, reason: errUnavailable, wait: wait.True})
}

// Refuse ends a request that this handler does not decide. Errors of others, such as a matcher's, go to
// the error routes, also for gRPC: Caddy's log has them from there.
func (v *Visit) Refuse(err error) error {
	coded := caddyhttp.HandlerError{}
	if !rule.IsRefusal(err) || !errors.As(err, &coded) {
		return v.fail(err)
	}
	if c := v.limiter.Logger.Check(zap.DebugLevel, "request refused"); c != nil {
		c.Write(zap.Int("status", coded.StatusCode), zap.Error(coded.Err))
	}
	if d := v.knownDecision(); d != nil {
		d.refused = true
	}
	return v.refuse(&refusal{status: coded.StatusCode, reason: errors.Unwrap(coded.Err)})
}

// fail ends a request with an error, which Caddy's error routes answer. If the limit stands in these
// routes they cannot: Caddy would answer with the status of the error that they run for.
func (v *Visit) fail(err error) error {
	failure := caddyhttp.HandlerError{}
	if !v.isInErrorRoutes() || !errors.As(err, &failure) {
		return err
	}
	v.ResponseWriter.WriteHeader(failure.StatusCode)
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
func (v *Visit) formOf(r *refusal) form {
	l := v.limiter
	_, hasText := r.text()
	switch {
	case v.callType() != "":
		return formCall
	case l.ProblemDetails && r.hasProblem():
		return formProblem
	case !hasText:
		return formError
	case r.isEarly(), v.isInErrorRoutes():
		return formText
	case !l.OnlyServerHandlesErrors || l.ErrorRoutes.CanHandle(v.request, r.status):
		return formError
	}
	return formText
}

// refuse answers a request with a refusal in its form. An error is returned only to error routes that can answer: Caddy
// first describes the whole request for its error log, even if that is off, which is a quarter of a flood's throughput.
func (v *Visit) refuse(r *refusal) error {
	switch v.formOf(r) {
	case formCall:
		v.refuseCall(r)
		return nil
	case formProblem:
		return v.problemOf(r).Write(v.ResponseWriter)
	case formText:
		text, _ := r.text()
		text.Write(v.ResponseWriter, isHead(v.request))
		return nil
	}
	return v.fail(rule.Refuse(r.status, r.reason))
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
func (v *Visit) problemOf(r *refusal) quotaheader.Problem {
	if r.cause == denied {
		return v.decision.problem(r.status, r.checks)
	}
	return quotaheader.ReducedCapacity(r.status)
}

// callOf returns a refusal in gRPC's form.
func (v *Visit) callOf(r *refusal) quotaheader.RefusedCall {
	switch r.cause {
	case denied:
		return v.decision.deniedCall(&r.checks[limiter.Binding(r.checks)], r.wait)
	case unavailable:
		return quotaheader.UndecidedCall(r.wait)
	}
	return quotaheader.CallRefusedBy(r.status)
}

// callType returns the content type of a refusal in gRPC's form; empty where a request gets another.
func (v *Visit) callType() string {
	if !v.limiter.GRPC {
		return ""
	}
	contentType := quotaheader.GRPCType(v.request.Header)
	if contentType != "" && v.limiter.Usage.Matches(v.request) {
		return "" // which no call asks
	}
	return contentType
}

// refuseCall answers in gRPC's form, in place of a status of HTTP.
func (v *Visit) refuseCall(r *refusal) {
	if d := v.knownDecision(); d != nil {
		d.callStatus = uint16(r.status)
	}
	v.callOf(r).Write(v.ResponseWriter, v.request.Header, v.callType())
}

// isInErrorRoutes reports whether the limit stands in error routes, which run for another error.
func (v *Visit) isInErrorRoutes() bool {
	return v.request.Context().Value(caddyhttp.ErrorCtxKey) != nil
}
