package gate

import (
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/quotaheader"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

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
