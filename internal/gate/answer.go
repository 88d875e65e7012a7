package gate

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/quotaheader"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
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
		c.Write(l.describe(denier)...)
	}
	l.Events.Denied(denier, d.source)
	wait := v.turnAway(l.Status, denier.Result.RetryAfter)
	d.quotas.Deny(verdict.at, wait)
	if v.callType() == "" && l.MayWait(&verdict.Question, verdict.pass) && isNavigation(v.request) {
		return v.showPage(verdict)
	}
	return v.answer(l.Status, errDenied,
		func() quotaheader.RefusedCall { return d.deniedCall(denier, wait.True) },
		func() quotaheader.Problem { return d.problem(l.Status, verdict.Checks) })
}

// turnAway says in the header of a refusal when to come back, and judges it as a response.
func (v *Visit) turnAway(status int, after time.Duration) (wait quotaheader.Wait) {
	wait = quotaheader.SetRefusal(v.Header(), after, v.limiter.RetryJitter)
	v.judge(status, v.Header())
	return wait
}

// answer answers a refusal: a call in gRPC's form, other requests by a problem or by Caddy's error routes. A denial
// that none of these handles gets what Caddy would answer. For a returned error Caddy first describes the whole request
// for its error log, even if that is off: a quarter of a flood's throughput.
func (v *Visit) answer(status int, reason error, call func() quotaheader.RefusedCall, problem func() quotaheader.Problem) error {
	l := v.limiter
	v.decision.quotas.SetHeaders(v.Header(), v.request.Header)
	contentType := v.callType()
	switch {
	case contentType != "":
		v.refuseCall(status, contentType, call())
	case l.ProblemDetails:
		return problem().Write(v.ResponseWriter)
	case errors.Is(reason, errDenied) && l.OnlyServerHandlesErrors && !hasErrorRoutes(v.request):
		v.ResponseWriter.WriteHeader(status)
	default:
		return v.fail(rule.Refuse(status, reason))
	}
	return nil
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
	return v.answer(http.StatusServiceUnavailable, errUnavailable,
		func() quotaheader.RefusedCall { return quotaheader.UndecidedCall(wait.True) },
		func() quotaheader.Problem { return quotaheader.ReducedCapacity(http.StatusServiceUnavailable) })
}

// Refuse ends a request that this handler does not decide. Errors of others, such as a matcher's, go to
// the error routes, also for gRPC: Caddy's log has them from there.
func (v *Visit) Refuse(err error) error {
	coded := caddyhttp.HandlerError{}
	if !rule.IsRefusal(err) || !errors.As(err, &coded) {
		return v.fail(err)
	}
	contentType := v.callType()
	if contentType == "" {
		return v.fail(err)
	}
	if c := v.limiter.Logger.Check(zap.DebugLevel, "call refused"); c != nil {
		c.Write(zap.Int("status", coded.StatusCode), zap.Error(coded.Err))
	}
	v.refuseCall(coded.StatusCode, contentType, quotaheader.CallRefusedBy(coded.StatusCode))
	return nil
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
func (v *Visit) refuseCall(status int, contentType string, refusal quotaheader.RefusedCall) {
	if d, ok := caddyhttp.GetVar(v.request.Context(), decisionVar).(*decision); ok {
		d.callStatus = uint16(status)
	}
	refusal.Write(v.ResponseWriter, v.request.Header, contentType)
}

// fail ends a request with an error, which Caddy's error routes answer. If the limit stands in these
// routes they cannot: Caddy would answer with the status of the error that they run for.
func (v *Visit) fail(err error) error {
	if v.request.Context().Value(caddyhttp.ErrorCtxKey) == nil {
		return err
	}
	failure := caddyhttp.HandlerError{}
	if !errors.As(err, &failure) {
		return err
	}
	v.ResponseWriter.WriteHeader(failure.StatusCode)
	return nil
}

// hasErrorRoutes reports whether the server of a request has routes for errors, or may have some: named
// routes are invoked by subroutes that may have their own.
func hasErrorRoutes(r *http.Request) bool {
	server, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	return !ok || server == nil || len(server.NamedRoutes) > 0 || (server.Errors != nil && len(server.Errors.Routes) > 0)
}
