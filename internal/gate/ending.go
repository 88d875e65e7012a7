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

// ending is how handlers ended that wrote no response.
type ending int

// The endings.
const (
	answers   ending = iota // Caddy answers with a status, by its error routes or without a body
	refuses                 // a handler of this module refused the request
	unreached               // Caddy answers with a status, and certainly no backend was reached
	breaks                  // the client left, or what is behind the handlers broke
)

// endingOf returns how handlers ended by their error, and the status that becomes of it. Backends that stall or break
// off on wrong passwords must not make these free to try, so that only what certainly reached no backend, and what
// Caddy's error handler says, is an answer from 499 on.
func (x *Exchange) endingOf(err error) (status int, how ending) {
	if status = http.StatusOK; err != nil { // net/http makes that of no response
		status = http.StatusInternalServerError
	}
	failure := caddyhttp.HandlerError{}
	if errors.As(err, &failure) && failure.StatusCode != 0 {
		status = failure.StatusCode
	}
	switch {
	case rule.IsRefusal(err):
		return status, refuses
	case x.clientGone():
		return status, breaks
	case err == nil || isByErrorHandler(failure):
		return status, answers
	case x.reachedNone(err, failure):
		return status, unreached
	case status >= statusClientGone:
		return status, breaks
	}
	return status, answers
}

// isByErrorHandler reports whether Caddy's error handler made an error. The place in the code is its only mark.
func isByErrorHandler(failure caddyhttp.HandlerError) bool {
	return strings.HasPrefix(failure.Trace, "caddyhttp.StaticError.") || strings.HasPrefix(failure.Trace, "caddyhttp.(*StaticError).")
}

// reachedNone reports whether an error says that no backend was reached: a reverse_proxy had none to choose from, or
// could not connect to any that it tried. Another backend may have seen the request before: of a proxy whose routes
// for responses led to this one, or whose error led to error routes of a subroute.
func (x *Exchange) reachedNone(err error, failure caddyhttp.HandlerError) bool {
	noUpstream := isNoUpstream(failure)
	if !noUpstream && !errors.As(err, new(reverseproxy.DialError)) {
		return false
	}
	repl := replacerOf(x.request)
	switch {
	case repl == nil || valueOf(repl, proxyLatency) != x.pending.answered:
		return false
	case valueOf(repl, interceptAnswered) != nil || valueOf(repl, errorHandled) != nil:
		return false
	}
	return noUpstream || x.everyTryFailedToConnect(repl)
}

// isNoUpstream reports whether a reverse_proxy had no upstream to choose from, in any of its tries: otherwise its error
// is that of an earlier try. It keeps the error to itself.
func isNoUpstream(failure caddyhttp.HandlerError) bool {
	return failure.StatusCode == http.StatusServiceUnavailable && strings.HasPrefix(failure.Trace, "reverseproxy.") &&
		failure.Err != nil && failure.Err.Error() == "no upstreams available"
}

// Placeholders that say what has become of a request before.
const (
	proxyLatency      = "http.reverse_proxy.upstream.latency" // of the last answer of a backend, in nanoseconds
	proxyRetries      = "http.reverse_proxy.retries"          // of the last reverse_proxy
	interceptAnswered = "http.intercept.status_code"          // of a response in whose place routes wrote another
	errorHandled      = "http.error"                          // that error routes handle, or have handled
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

// everyTryFailedToConnect reports whether a reverse_proxy whose last try failed to connect has had no connection in the
// tries before. By default it tries again after a connection if the method is GET. CONNECT is sent as GET, where it
// begins a WebSocket.
func (x *Exchange) everyTryFailedToConnect(repl *caddy.Replacer) bool {
	retries, ok := valueOf(repl, proxyRetries).(int)
	switch {
	case !ok:
		return false
	case retries == 0:
		return true
	}
	method := x.request.Method
	return method != http.MethodGet && method != http.MethodConnect && !x.limiter.proxies.of(x.request).Repeat
}

// noteAnswer remembers the answer of a backend before the handlers behind this one are called, such as that of forward_auth.
func (x *Exchange) noteAnswer() {
	if !x.limiter.proxies.of(x.request).Pass {
		return
	}
	if repl := replacerOf(x.request); repl != nil {
		x.pending.answered = valueOf(repl, proxyLatency)
	}
}
