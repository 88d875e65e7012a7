package gate

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/quotaheader"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

var (
	errDenied      = errors.New("rate limit exceeded")
	errUnavailable = errors.New("rate limit store unavailable")
	errCrowded     = errors.New("too many requests are held for rate limits")
)

// MaxHeld is how many requests this process holds at a time. Each keeps a connection and some memory. More are refused.
const MaxHeld = 65536

// Deny answers a request that was denied.
func (x *Exchange) Deny(verdict *Verdict) error {
	l, d := x.limiter, x.decision
	binding := &verdict.Checks[limiter.Binding(verdict.Checks)]
	if c := l.Logger.Check(zap.DebugLevel, "request denied"); c != nil {
		c.Write(l.describe(binding, d.source, d.reason())...)
	}
	l.Events.Denied(binding, d.source)
	wait := x.setRetryAfter(l.Status, binding.Result.RetryAfter)
	d.quotas.Deny(verdict.at, wait)
	if x.callType() == "" && l.MayWait(&verdict.CheckGroup, verdict.pass) && isNavigation(x.request) {
		return x.showPage(verdict)
	}
	d.quotas.SetHeaders(x.Header(), x.request.Header)
	return x.refuse(&refusal{cause: denied, status: l.Status, reason: errDenied, wait: wait.True, checks: verdict.Checks})
}

// setRetryAfter sets Retry-After, and settles the checks of dry runs by the refusal's status, as by any response. The
// wait comes from
//
//	a denial                    the result of the check that binds. The source and the reason of the denial, in
//	                            the log and the placeholders, say who made the result: Redis or the memory by the
//	                            algorithm or by a ban, a remembered denial, an override by its end
//	a store that fails          the time of the next attempt to reach it
//
// and gets the jitter in [quotaheader.SetRefusal].
func (x *Exchange) setRetryAfter(status int, after time.Duration) (wait quotaheader.Wait) {
	wait = quotaheader.SetRefusal(x.Header(), after, x.limiter.RetryJitter)
	x.settleByStatus(status, x.Header())
	x.decision.refused = true
	return wait
}

// Delay holds an allowed request until the queues of its policies let it pass. Too many held requests, and a client that
// leaves meanwhile, are errors. Over HTTP/1.1 Go notices that a client has left only once the request's body is read.
// Delay reads nothing of the body for that: a read answers Expect: 100-continue, the bodies of all held requests would
// be in memory, and no read from a slow client can be undone.
func (x *Exchange) Delay(delay time.Duration) error {
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

// abortDelay settles an allowed request that fails while it is held, by the error.
func (x *Exchange) abortDelay(err error) error {
	x.settleByError(err)
	x.decision.quotas.SetHeaders(x.Header(), x.request.Header)
	return err
}

// RefuseUndecided answers a request that no store decided: its client left or its time was up, or the store failed and
// the fail mode is closed.
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

// Refuse ends a request with an error, without a decision. Errors that are no refusals, such as a matcher's, go to the
// error routes, also for gRPC: Caddy logs them there.
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

// fail ends a request with an error, which Caddy's error routes answer. If the handler is in an error route itself, the
// status is written here: Caddy would answer with the status of the error that the route handles.
func (x *Exchange) fail(err error) error {
	failure := caddyhttp.HandlerError{}
	if !x.isInErrorRoutes() || !errors.As(err, &failure) {
		return err
	}
	x.ResponseWriter.WriteHeader(failure.StatusCode)
	return nil
}

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

// form is the form in which a refusal is written.
type form int

// The forms.
const (
	formError   form = iota // an error, which Caddy's error routes answer
	formCall                // gRPC's own
	formProblem             // problem details
	formText                // a line of text
)

// formOf returns the form of a refusal. If an error route can answer the refusal, it does. A request in early data is
// answered here: browsers send it again if the answer has the status 425, which an error route may replace.
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

// refuse answers a request with a refusal in its form. An error is returned only if error routes can answer the error:
// Caddy first describes the whole request for its error log, even if the log is off, which costs a quarter of the
// throughput of a flood.
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

// text returns the refusal as a line of text, and reports whether there is one.
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

// callType returns the content type of a refusal in gRPC's form; empty if the request gets another form. The usage page
// is JSON even if the request's Content-Type is gRPC's.
func (x *Exchange) callType() string {
	if !x.limiter.GRPC || x.asksUsage {
		return ""
	}
	return quotaheader.GRPCType(x.request.Header)
}

// refuseCall answers with a refusal in gRPC's form, which has the status 200.
func (x *Exchange) refuseCall(r *refusal) {
	if d := x.knownDecision(); d != nil {
		d.callStatus = uint16(r.status)
	}
	x.callOf(r).Write(x.ResponseWriter, x.request.Header, x.callType())
}

// isInErrorRoutes reports whether the handler runs in an error route, for another error.
func (x *Exchange) isInErrorRoutes() bool {
	return x.request.Context().Value(caddyhttp.ErrorCtxKey) != nil
}
