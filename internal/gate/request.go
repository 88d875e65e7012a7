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

// Visit is a request of a client at a limiter. It sees the response as this handler does; handlers further out may
// replace it. What the request is charged depends on it. The outermost visit of a request sets the headers of all
// handlers, at the last moment before the response's header is written, so that they replace those of an upstream.
// Informational responses pass by; 101 is final.
type Visit struct {
	caddyhttp.ResponseWriterWrapper
	limiter   *Limiter
	request   *http.Request
	decision  *decision         // of the request; nil before this handler has decided
	stores    *storepool.Stores // that decide, while they are used
	awaited   *awaited          // what ends with the response or the request; nil: nothing does
	outermost bool
	done      bool // the final response was seen

	// Memory that the request needs besides, so that it costs one allocation.
	own    decision
	checks [1]limiter.Check
}

// Visit begins the visit of a request.
func (l *Limiter) Visit(w http.ResponseWriter, r *http.Request) *Visit {
	if l.Forwarded != nil {
		l.Forwarded.Look(r)
	}
	v := &Visit{limiter: l, request: r}
	v.ResponseWriter = w
	return v
}

// Meet does so for the visit's request.
func (v *Visit) Meet(repl *caddy.Replacer, e *rule.Evaluation) (Meeting, error) {
	e.Enforced = v.room(len(v.limiter.Rules.Rules))
	return v.limiter.Meet(v.request, repl, e)
}

// room returns room for the checks of so many rules, many of which may not select the request.
func (v *Visit) room(rules int) []limiter.Check {
	if rules <= len(v.checks) {
		return v.checks[:0]
	}
	return make([]limiter.Check, 0, min(rules, 4))
}

// decisionFor returns the decision about the request: that of an earlier handler, or its own.
func (v *Visit) decisionFor(repl *caddy.Replacer) *decision {
	if v.decision == nil {
		v.decision = v.own.join(v.request, repl)
	}
	return v.decision
}

// knownDecision returns the decision about the request, nil if no handler has made one.
func (v *Visit) knownDecision() *decision {
	if v.decision != nil {
		return v.decision
	}
	d, _ := caddyhttp.GetVar(v.request.Context(), decisionVar).(*decision)
	return d
}

// use begins the use of the stores, and makes room for what may follow the decision.
func (v *Visit) use() {
	v.stores = v.limiter.Stores.Use()
	if v.limiter.settles || v.limiter.countsRunning {
		v.awaited = new(awaited)
	}
}

// unused ends the use of the stores if nothing is refunded, charged or ended later: a connection that was handed
// over may live for hours.
func (v *Visit) unused() {
	if a := v.awaited; v.stores != nil && (a == nil || len(a.passed)+len(a.running) == 0) {
		v.stores.End()
		v.stores = nil
	}
}

// clientGone reports whether the client left. After the response's header it says nothing: a client that has read
// the response may close at once.
func (v *Visit) clientGone() bool { return v.request.Context().Err() != nil }

// sent returns the method and the URL that the client sent, which handlers further out may have rewritten.
func sent(r *http.Request) (method string, target *url.URL) {
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		return original.Method, original.URL
	}
	return r.Method, r.URL
}

// isHead reports whether the client asked for the header alone. No body is sent then, though handlers may
// write one.
func isHead(r *http.Request) bool {
	method, _ := sent(r)
	return method == http.MethodHead
}

// This file is the first step: what does a request meet?

// Meeting is what a request has to do with a limiter.
type Meeting int

// The meetings.
const (
	Nothing      Meeting = iota // no rule concerns the request
	BringsTicket                // it has waited, and asks for a pass
	AsksUsage                   // it asks for its client's quotas
	Refused                     // it yields no key, or a matcher fails
	Exempt                      // by the option or by an override
	Decided                     // rules decide about it
)

// Meet finds out what a request has to do with the limiter, and evaluates its rules. The error says why the request
// is refused.
func (l *Limiter) Meet(r *http.Request, repl *caddy.Replacer, e *rule.Evaluation) (Meeting, error) {
	switch {
	case l.challenges && challenge.BringsTicket(sent(r)):
		return BringsTicket, nil
	case l.Usage.Matches(r):
		return AsksUsage, nil
	}
	return l.evaluate(r, repl, e)
}

// evaluate evaluates the rules. Blocks concern exempt clients too.
func (l *Limiter) evaluate(r *http.Request, repl *caddy.Replacer, e *rule.Evaluation) (Meeting, error) {
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
		return Decided, nil
	case e.Exempted:
		return Exempt, nil
	}
	return Nothing, nil
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
