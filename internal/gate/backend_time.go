package gate

import (
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
)

// This file times the backend for cost backend_time. Caddy tells how long the last answer of a backend took. That is the time of
// a reverse_proxy which has sent on what it got. After several tries, where another handler than Caddy's own answered, or where
// nothing was answered, it is the time of all handlers behind this one, without what directives of this module further in have
// held the request for.

// backendTiming is when the handlers behind an exchange were called, and when they answered.
type backendTiming struct {
	called   clock.Moment
	answered clock.Moment  // with the header of the final response; 0: they have written no header
	held     time.Duration // before the call, and then between that and the answer

	switched bool // the response begins a WebSocket
	returned bool // they returned, and did not panic
}

// newTiming begins a timing as the handlers behind are called.
func newTiming(d *sharedDecision) *backendTiming {
	return &backendTiming{called: clock.Now(), held: d.few().held}
}

// end ends the timing with the header of the final response, or with the request.
func (t *backendTiming) end(d *sharedDecision) { t.answered, t.held = clock.Now(), d.few().held-t.held }

// backendTime returns how long a backend has worked for the response that has ended. A timing without an end ends now.
func (x *Exchange) backendTime() time.Duration {
	timing := x.pending.timing
	if timing == nil { // the request was refused before
		return 0
	}
	if timing.answered == 0 {
		timing.end(x.decision)
	}
	elapsed := timing.answered.Since(timing.called) - timing.held
	// A response of Caddy to an error has begun too. That of a client that left has not, nor what broke.
	if repl := replacerOf(x.request); repl != nil && x.pending.response.Begun {
		return x.timeOfAnswer(repl, elapsed)
	}
	return elapsed
}

// timeOfAnswer returns how long a backend has worked for an answer, for which all handlers have taken the elapsed time. It is
// 0 where Caddy answers, and no backend was asked but that which says whether a request may go on.
func (x *Exchange) timeOfAnswer(repl *caddy.Replacer, elapsed time.Duration) time.Duration {
	timing, proxies := x.pending.timing, x.limiter.server.proxies(x.request)
	latency, isAsked := valueOf(repl, proxyLatency).(time.Duration)
	isAsked = isAsked && any(latency) != x.pending.answered
	// What panics behind a header has not sent all of it.
	isSentOn := isAsked && (!proxies.Pass || !timing.returned || timing.switched || valueOf(repl, proxySent) != nil)
	switch {
	case isSentOn && proxies.Retry && (proxies.Pass || valueOf(repl, proxyRetries) != 0): // forward_auth hides how often it was tried
		return elapsed
	case isSentOn:
		return latency
	case proxies.Foreign, valueOf(repl, errorHandled) != nil:
		return elapsed
	case isAsked && proxies.Answer:
		return latency
	}
	return 0
}
