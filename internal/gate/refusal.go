package gate

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/answer"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/requestbody"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/waiting"
)

var (
	errDenied      = errors.New("rate limit exceeded")
	errUnavailable = errors.New("rate limit store unavailable")
	errCrowded     = errors.New("too many requests are held for rate limits")
)

// Deny answers a request that was denied.
func (x *Exchange) Deny(made *Decision) error {
	l, d := x.limiter, x.decision
	binding := made.Binding()
	if c := l.Logger.Check(zap.DebugLevel, "request denied"); c != nil {
		c.Write(l.describe(made)...)
	}
	l.Listener.Denied(Event{Check: binding, Source: made.Source})
	l.Rules.RuleOf(binding).LookAtDenial(x.request)
	wait := x.setRetryAfter(l.Status, binding.Result.RetryAfter)
	d.refusal.values.Deny(made.at, wait)
	var lack answer.Lack
	if l.Formats != 0 && (binding.Result.Remaining > 0 || binding.Result.RetryAfter == limiter.Never) {
		lack = answer.LackOf(binding)
	}
	d.refusal.needed = lack.Needed
	if l.MayWait(made, made.pass) && isNavigation(x.request) {
		return x.showPage(made)
	}
	x.showQuotas()
	return x.refuse(answer.Refusal{
		Cause: causeOfDenial(made.Reason), Status: l.Status, IsDefault: l.IsDefaultStatus, Wait: wait, Checks: made.Checks, Lack: lack,
		Unwanted: made.Reason == limiter.ReasonBan || made.Reason == limiter.ReasonBlock,
	}, errDenied)
}

// describe returns the log fields of a denial.
func (l *Limiter) describe(made *Decision) []zap.Field {
	c := made.Binding()
	fields := []zap.Field{
		zap.String("policy", c.Policy.Name()), zap.String("reason", string(made.Reason)), zap.String("source", string(made.Source)),
		zap.Duration("retry_after", c.Result.RetryAfter), zap.Int64("limit", c.Policy.Capacity()),
	}
	if c.Result.Remaining != limiter.Unknown {
		fields = append(fields, zap.Int64("remaining", c.Result.Remaining))
	}
	if l.LogKeys {
		fields = append(fields, zap.Stringer("key", c.Key))
	}
	return fields
}

// setRetryAfter sets Retry-After, and settles the checks of dry runs by the refusal's status, as by any response. The
// wait comes from
//
//	a denial                    the result of the check that binds. The decision's source, which placeholders and the debug line show,
//	                            says who denied: redis, or memory and fallback in this process, by the kernel of the
//	                            algorithm, by a ban, or by the second of a request that ends soon (kernel.RunningHint);
//	                            deny_cache by an earlier answer, less its age; override by the block's end
//	                            in its place 1 s: if a store has decided and refunds of this node may let the request
//	                            pass (internal/failover/unsettled.go), if in_flight is full (looks.go there), if a
//	                            wait for units was in vain (waiting.go), on the page that waits (internal/challenge)
//	a store that fails          the time of the next attempt to reach it
//	no room for a body          requestbody.RetryAfter
//
// and gets the jitter in [answer.SetRefusal].
func (x *Exchange) setRetryAfter(status int, after time.Duration) (wait answer.Wait) {
	values := &x.decision.ofRefusal().values
	wait = answer.SetRefusal(x.Header(), x.request.Header, after, x.limiter.RetryJitter, values)
	if x.pending != nil {
		x.settleByStatus(status)
	}
	x.decision.refused = true
	return wait
}

// causeOfDenial returns the cause of a denial, by its reason.
func causeOfDenial(reason limiter.Reason) answer.Cause {
	switch reason {
	case limiter.ReasonBan:
		return answer.Banned
	case limiter.ReasonMaxConcurrent:
		return answer.Crowded
	}
	return answer.Limited
}

// Delay holds an allowed request until the queues of its policies let it pass. Too many held requests, and a client that
// leaves meanwhile, are errors. Over HTTP/1.1 Go notices that a client has left only once the request's body is read.
// Delay reads nothing of the body for that: a read answers Expect: 100-continue, the bodies of all held requests would
// be in memory, and no read from a slow client can be undone.
func (x *Exchange) Delay(delay time.Duration) error {
	held := x.limiter.Process.Held
	if !held.Enter() {
		return x.abortDelay(rule.Refuse(http.StatusServiceUnavailable, errCrowded))
	}
	defer held.Leave()
	start := clock.Now()
	err := hold(x.request.Context(), delay)
	x.decision.addRare().held += clock.Now().Since(start)
	if err != nil {
		return x.abortDelay(err)
	}
	return nil
}

// abortDelay settles an allowed request that fails while it is held, by the error.
func (x *Exchange) abortDelay(err error) error {
	x.settleByRefusal(err)
	x.showQuotas()
	return err
}

// AnswerWithoutDecision answers a request that no store decided: its client left or its time was up, or the store failed and
// the fail mode is closed.
func (x *Exchange) AnswerWithoutDecision(err error) error {
	switch {
	case rule.IsRefusal(err):
		x.settleByRefusal(err)
		return x.Refuse(err)
	case !errors.Is(err, limiter.ErrUndecided):
		status := statusClientGone
		if errors.Is(err, context.DeadlineExceeded) {
			status = http.StatusGatewayTimeout
		}
		err = rule.Refuse(status, err)
		x.settleByRefusal(err)
		return x.Refuse(err)
	}
	_, probe := x.stores.Failing()
	wait := x.setRetryAfter(http.StatusServiceUnavailable, probe)
	x.showQuotas()
	return x.refuse(answer.Refusal{Cause: answer.Unavailable, Status: http.StatusServiceUnavailable, Wait: wait}, errUnavailable)
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
	r := answer.Refusal{Cause: answer.CauseOfStatus(coded.StatusCode), Status: coded.StatusCode}
	if errors.Is(coded.Err, rule.ErrNoRoom) || errors.Is(coded.Err, waiting.ErrExit) || errors.Is(coded.Err, waiting.ErrNoRoom) {
		r.Wait = answer.SetRefusal(x.Header(), x.request.Header, requestbody.RetryAfter, x.limiter.RetryJitter, nil)
	}
	return x.refuse(r, errors.Unwrap(coded.Err))
}

// fail ends a request with an error, which Caddy's error routes answer. If the handler is in an error route itself, the
// status is written here: Caddy would answer with the status of the error that the route handles.
func (x *Exchange) fail(err error) error {
	answer.DropPage(x.Header())
	failure := caddyhttp.HandlerError{}
	if !x.isInErrorRoutes() || !errors.As(err, &failure) {
		return err
	}
	x.noteAnswer(failure.StatusCode)
	x.ResponseWriter.WriteHeader(failure.StatusCode)
	return nil
}

// refuse answers a request with a refusal in its form. An error is returned only if error routes can answer the error:
// Caddy first describes the whole request for its error log, even if the log is off, which costs a quarter of the
// throughput of a flood.
func (x *Exchange) refuse(r answer.Refusal, reason error) error {
	q := answer.Request{Header: x.request.Header}
	q.Method, q.URL = originalRequest(x.request)
	preference := x.limiter.Answer
	byErrorRoutes := preference == answer.AnswerDefault && x.canErrorRoutesAnswer(r.Status)
	if !byErrorRoutes && q.Method == http.MethodPost && preference.ReadsCall(q, r) {
		q.Call = x.call()
	}
	x.answerAtOnce()
	form := preference.Form(q, r)
	if form == nil || byErrorRoutes && !form.GoesFirst(r) {
		return x.fail(rule.Refuse(r.Status, reason))
	}
	var values *answer.FormValues
	if d, status := x.decision, form.Status(r); d != nil { // Refuse has looked for the decision of another handler
		refused := d.ofRefusal()
		refused.answered, values = refusalAnswer{form, status, r.Status}, &refused.ofAnswer
		d.answered = uint16(status)
	}
	if x.request.ProtoMajor == 1 && x.request.ContentLength != 0 {
		x.answerUpload(form, q, r, values)
		return nil
	}
	form.Write(x.ResponseWriter, q, r, values)
	return nil
}

// answerAtOnce closes the connection of a client that still waits for 100 Continue, as net/http does by itself. Through
// Caddy's reader of the body net/http does not see that nothing of the body has been read: it would wait for a part of the
// body before it answers, and the client for the answer.
func (x *Exchange) answerAtOnce() {
	if r := x.request; r.ProtoMajor == 1 && r.ContentLength != 0 && x.isBodyAwaited() {
		x.Header().Set("Connection", "close")
	}
}

// canErrorRoutesAnswer reports whether an error route can answer what a request is refused with.
func (x *Exchange) canErrorRoutesAnswer(status int) bool {
	can := !x.limiter.OnlyServerHandlesErrors || x.limiter.ErrorRoutes.CanHandle(x.request, status)
	return can && !x.isInErrorRoutes()
}

// isInErrorRoutes reports whether the handler runs in an error route, for another error.
func (x *Exchange) isInErrorRoutes() bool {
	return x.request.Context().Value(caddyhttp.ErrorCtxKey) != nil
}
