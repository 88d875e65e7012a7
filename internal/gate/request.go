package gate

import (
	"net/http"
	"net/url"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/challenge"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

// Exchange is a request of a client at a limiter. It sees the response as this handler does; handlers further out may
// replace it. What the request is charged depends on it. The outermost visit of a request sets the headers of all
// handlers, at the last moment before the response's header is written, so that they replace those of an upstream.
// Informational responses pass by; 101 is final.
type Exchange struct {
	caddyhttp.ResponseWriterWrapper
	limiter   *Limiter
	request   *http.Request
	decision  *decision         // of the request; nil before this handler has decided
	stores    *storepool.Stores // that decide, while they are used
	pending   *pendingWork      // what ends with the response or the request; nil: nothing does
	outermost bool
	done      bool // the final response was seen

	// Memory that the request needs besides, so that it costs one allocation.
	own    decision
	checks [1]limiter.Check
}

// NewExchange begins the visit of a request.
func (l *Limiter) NewExchange(w http.ResponseWriter, r *http.Request) *Exchange {
	if l.Forwarded != nil {
		l.Forwarded.Look(r)
	}
	x := &Exchange{limiter: l, request: r}
	x.ResponseWriter = w
	return x
}

// Evaluate does so for the visit's request.
func (x *Exchange) Evaluate(repl *caddy.Replacer, e *rule.Evaluation) (Action, error) {
	e.Enforced = x.room(len(x.limiter.Rules.Rules))
	return x.limiter.Evaluate(x.request, repl, e)
}

// room returns room for the checks of so many rules, many of which may not select the request.
func (x *Exchange) room(rules int) []limiter.Check {
	if rules <= len(x.checks) {
		return x.checks[:0]
	}
	return make([]limiter.Check, 0, min(rules, 4))
}

// decisionFor returns the decision about the request: that of an earlier handler, or its own.
func (x *Exchange) decisionFor(repl *caddy.Replacer) *decision {
	if x.decision == nil {
		x.decision = x.own.join(x.request, repl)
	}
	return x.decision
}

// knownDecision returns the decision about the request, nil if no handler has made one.
func (x *Exchange) knownDecision() *decision {
	if x.decision != nil {
		return x.decision
	}
	d, _ := caddyhttp.GetVar(x.request.Context(), decisionVar).(*decision)
	return d
}

// acquireStores begins the use of the stores, and makes room for what may follow the decision.
func (x *Exchange) acquireStores() {
	x.stores = x.limiter.Stores.Use()
	if x.limiter.settles || x.limiter.countsRunning {
		x.pending = new(pendingWork)
	}
}

// releaseIfIdle ends the use of the stores if nothing is refunded, charged or ended later: a connection that was handed
// over may live for hours.
func (x *Exchange) releaseIfIdle() {
	if a := x.pending; x.stores != nil && (a == nil || len(a.checks)+len(a.running) == 0) {
		x.stores.End()
		x.stores = nil
	}
}

// clientGone reports whether the client left. After the response's header it says nothing: a client that has read
// the response may close at once.
func (x *Exchange) clientGone() bool { return x.request.Context().Err() != nil }

// originalRequest returns the method and the URL that the client sent, which handlers further out may have rewritten.
func originalRequest(r *http.Request) (method string, target *url.URL) {
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		return original.Method, original.URL
	}
	return r.Method, r.URL
}

// isHead reports whether the client asked for the header alone. No body is sent then, though handlers may
// write one.
func isHead(r *http.Request) bool {
	method, _ := originalRequest(r)
	return method == http.MethodHead
}

// This file is the first step: what does a request meet?

// Action is what a request has to do with a limiter.
type Action int

// The meetings.
const (
	NotLimited           Action = iota // no rule concerns the request
	ReturnsFromChallenge               // it has waited, and asks for a pass
	AsksUsage                          // it asks for its client's quotas
	Refused                            // it yields no key, or a matcher fails
	Exempt                             // by the option or by an override
	Limited                            // rules decide about it
)

// Evaluate finds out what a request has to do with the limiter, and evaluates its rules. The error says why the request
// is refused.
func (l *Limiter) Evaluate(r *http.Request, repl *caddy.Replacer, e *rule.Evaluation) (Action, error) {
	switch {
	case l.challenges && challenge.BringsTicket(originalRequest(r)):
		return ReturnsFromChallenge, nil
	case l.Usage.Matches(r):
		return AsksUsage, nil
	}
	return l.evaluate(r, repl, e)
}

// evaluate evaluates the rules. Blocks concern exempt clients too.
func (l *Limiter) evaluate(r *http.Request, repl *caddy.Replacer, e *rule.Evaluation) (Action, error) {
	if l.challenges {
		e.Pass = l.passOf(r)
	}
	if l.Rules.IsExempt(r) {
		if !l.Rules.BlocksExempt(r, repl, e) {
			return Exempt, nil
		}
	} else if err := l.Rules.Evaluate(r, repl, e); err != nil {
		return Refused, err
	}
	switch {
	case e.Concerns():
		return Limited, nil
	case e.Exempted:
		return Exempt, nil
	}
	return NotLimited, nil
}

// Caddy's templates give these to the requests that they make of themselves, for httpInclude.
const (
	includeAddr   = "127.0.0.1:10000"
	includeHeader = "Caddy-Templates-Include"
)

// IsInclude reports whether a request is part of another one's page, and so none of a client. Those of
// clients have in their context what their server or connection is, whatever they claim.
func IsInclude(r *http.Request) bool {
	if r.RemoteAddr != includeAddr || len(r.Header[includeHeader]) == 0 {
		return false
	}
	ctx := r.Context()
	return ctx.Value(http.ServerContextKey) == nil && ctx.Value(http.LocalAddrContextKey) == nil
}
