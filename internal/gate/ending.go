package gate

import (
	"errors"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// ending says how handlers ended that wrote no response.
type ending int

// The endings.
const (
	answers   ending = iota // Caddy answers with a status, by its error routes or without a body
	refuses                 // a handler of this module refused the request
	unreached               // Caddy answers with a status, and certainly no backend was reached
	breaks                  // what is behind the handlers broke
)

// endingOf returns the status that Caddy answers the handlers' error with, and how they ended. A backend that stalls or
// breaks off after a wrong password must not make passwords free to try. Errors from 499 on therefore are an answer only
// if certainly no backend was reached, or if the error comes from Caddy's handler error.
func (x *Exchange) endingOf(err error) (status int, how ending) {
	if status = http.StatusOK; err != nil { // net/http answers 200 if nothing was written
		status = http.StatusInternalServerError
	}
	failure := caddyhttp.HandlerError{}
	if errors.As(err, &failure) && failure.StatusCode != 0 {
		status = failure.StatusCode
	}
	switch {
	case rule.IsRefusal(err):
		return status, refuses
	case err == nil || isByErrorHandler(failure):
		return status, answers
	case x.reachedNone(err, failure):
		return status, unreached
	case status >= statusClientGone:
		return status, breaks
	}
	return status, answers
}

// isByErrorHandler reports whether an error comes from Caddy's handler error. Only the place in the code, which the error
// has as its trace, says so.
func isByErrorHandler(failure caddyhttp.HandlerError) bool {
	return strings.HasPrefix(failure.Trace, "caddyhttp.StaticError.") || strings.HasPrefix(failure.Trace, "caddyhttp.(*StaticError).")
}

// reachedNone reports whether an error says that no backend was reached: a matcher of this module failed, a reverse_proxy
// had no upstream to choose from, or could not connect to any upstream.
func (x *Exchange) reachedNone(err error, failure caddyhttp.HandlerError) bool {
	certain := isNoUpstream(failure) || rule.IsByMatcher(err)
	if !certain && !errors.As(err, new(reverseproxy.DialError)) {
		return false
	}
	return x.isSilent() && (certain || x.everyTryFailedToConnect())
}

// isSilent reports whether no backend has answered since the handlers behind this one were called. It is false if one may
// have seen the request: the backend of a proxy whose handle_response led to where the request ended, or whose error led to the
// error routes of a subroute.
func (x *Exchange) isSilent() bool {
	repl := replacerOf(x.request)
	return repl != nil && valueOf(repl, proxyLatency) == x.pending.answered &&
		valueOf(repl, interceptAnswered) == nil && valueOf(repl, errorHandled) == nil
}

// originOf returns where a response comes from whose header is written now, with a status.
func (x *Exchange) originOf(status int) rule.Origin {
	d := x.decision
	switch byThisModule := d.answered != 0 && int(d.answered) == status; {
	case byThisModule && d.refused && !x.isSilent():
		return rule.FromRefusal
	case byThisModule && (d.refused || !x.isReplaced()):
		return rule.FromNoBackend
	case d.refused:
		return rule.AfterRefusal
	}
	return rule.FromHandlers
}

// isReplaced reports whether routes of intercept have written a response in place of another one.
func (x *Exchange) isReplaced() bool {
	repl := replacerOf(x.request)
	return repl != nil && valueOf(repl, interceptAnswered) != nil
}

// originOfNone returns where the answer comes from to handlers that wrote no response, by how they ended. What broke after
// a refusal may be another handler's answer to it.
func (x *Exchange) originOfNone(how ending) rule.Origin {
	refused := how == refuses || how == answers && x.decision.refused
	switch {
	case how == unreached, refused && x.isSilent():
		return rule.FromNoBackend
	case refused, x.decision.refused:
		return rule.FromRefusal
	}
	return rule.FromHandlers
}

// isNoUpstream reports whether a reverse_proxy had no upstream to choose from in any of its tries; otherwise the error is
// that of an earlier try. Caddy does not export the error, so that its text has to be compared.
func isNoUpstream(failure caddyhttp.HandlerError) bool {
	return failure.StatusCode == http.StatusServiceUnavailable && strings.HasPrefix(failure.Trace, "reverseproxy.") &&
		failure.Err != nil && failure.Err.Error() == "no upstreams available"
}

// Placeholders that say what has become of a request before.
const (
	proxyLatency      = "http.reverse_proxy.upstream.latency"  // of the last answer of a backend, in nanoseconds
	proxySent         = "http.reverse_proxy.upstream.duration" // of the last one that sent on what it got from a backend
	proxyRetries      = "http.reverse_proxy.retries"           // of the last reverse_proxy
	interceptAnswered = "http.intercept.status_code"           // of a response in whose place routes wrote another
	errorHandled      = "http.error"                           // that error routes handle, or have handled
)

// BrokeOff reports whether the status in a log says that the client left, or that a proxy got no answer from what is
// behind it. A log does not show that the proxy could not connect, which is charged nothing.
func BrokeOff(status int) bool {
	return status == statusClientGone || status == http.StatusBadGateway || status == http.StatusGatewayTimeout
}

// replacerOf returns the placeholders of a request; nil outside of Caddy.
func replacerOf(r *http.Request) *caddy.Replacer {
	repl, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	return repl
}

// valueOf returns the value of a placeholder; nil if it is not set.
func valueOf(repl *caddy.Replacer, name string) any {
	value, _ := repl.Get(name)
	return value
}

// everyTryFailedToConnect reports whether a reverse_proxy whose last try failed to connect had no connection in the tries
// before either. After a connection the proxy tries again if the method is GET, by default. A CONNECT that begins a
// WebSocket (RFC 8441) is sent as GET.
func (x *Exchange) everyTryFailedToConnect() bool {
	retries, ok := valueOf(replacerOf(x.request), proxyRetries).(int)
	switch {
	case !ok:
		return false
	case retries == 0:
		return true
	}
	method := x.request.Method
	return method != http.MethodGet && method != http.MethodConnect && !x.limiter.server.proxies(x.request).Repeat
}

// noteEarlier remembers whether a backend answered before the handlers behind this one are called, as that of
// forward_auth does.
func (x *Exchange) noteEarlier() {
	if !x.limiter.server.proxies(x.request).Pass {
		return
	}
	if repl := replacerOf(x.request); repl != nil {
		x.pending.answered = valueOf(repl, proxyLatency)
	}
}
